// Echo over TLS, by crypto/tls.
//
//	go serve CERTIFICATE KEY    an echo server, which prints its port
//	go load PORT CONNECTIONS    a client: for each line of its input, a number of milliseconds, it
//	                            sends messages of 64 bytes on all connections for this time, waits
//	                            for their echoes, and prints their number
package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func echo(connection net.Conn) {
	defer connection.Close()
	bytes := make([]byte, 1024)
	for {
		n, err := connection.Read(bytes)
		if err != nil {
			return
		}
		if _, err = connection.Write(bytes[:n]); err != nil {
			return
		}
	}
}

func serve(certificate, key string) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("echoing on port", listener.Addr().(*net.TCPAddr).Port)
	for {
		if connection, err := listener.Accept(); err == nil {
			go echo(connection)
		}
	}
}

func exchange(connection net.Conn, isOver *atomic.Bool) (echoes int64) {
	bytes := make([]byte, 64)
	for ; !isOver.Load(); echoes++ {
		if _, err := connection.Write(bytes); err != nil {
			log.Fatal(err)
		}
		if _, err := io.ReadFull(connection, bytes); err != nil {
			log.Fatal(err)
		}
	}
	return echoes
}

func piece(connections []net.Conn, length time.Duration) int64 {
	var echoes atomic.Int64
	var isOver atomic.Bool
	var all sync.WaitGroup
	for _, connection := range connections {
		all.Add(1)
		go func(connection net.Conn) {
			defer all.Done()
			echoes.Add(exchange(connection, &isOver))
		}(connection)
	}
	time.Sleep(length)
	isOver.Store(true)
	all.Wait()
	return echoes.Load()
}

func load(port string, n int) {
	connections := make([]net.Conn, n)
	for i := range connections {
		connection, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			log.Fatal(err)
		}
		connections[i] = connection
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		milliseconds, _ := strconv.Atoi(lines.Text())
		fmt.Println(piece(connections, time.Duration(milliseconds)*time.Millisecond))
	}
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3])
	} else if len(os.Args) == 4 && os.Args[1] == "load" {
		n, _ := strconv.Atoi(os.Args[3])
		load(os.Args[2], n)
	} else {
		log.Fatal("usage: go serve CERTIFICATE KEY | go load PORT CONNECTIONS")
	}
}
