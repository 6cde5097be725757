// A push server in Go: WebSockets whose messages are ignored.
//
//	go gorilla|coder|tuned    serves on a free port, which it prints, and for each line of its input
//	                          collects garbage, gives free memory back to the system, and prints
//	                          "done"
//
// gorilla and coder are used as their documentation shows. tuned is gorilla with as little memory as
// it can have: small buffers, of which those for writing are shared, and a goroutine that has never
// had a large stack, since the handler returns.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
)

var usual = gorilla.Upgrader{ReadBufferSize: 1024, WriteBufferSize: 1024}
var tuned = gorilla.Upgrader{ReadBufferSize: 256, WriteBufferSize: 256, WriteBufferPool: &sync.Pool{}}

func read(socket *gorilla.Conn) {
	defer socket.Close()
	for {
		if _, _, err := socket.ReadMessage(); err != nil {
			return
		}
	}
}

func serveGorilla(writer http.ResponseWriter, request *http.Request) {
	if socket, err := usual.Upgrade(writer, request, nil); err == nil {
		read(socket)
	}
}

func serveTuned(writer http.ResponseWriter, request *http.Request) {
	if socket, err := tuned.Upgrade(writer, request, nil); err == nil {
		go read(socket)
	}
}

func serveCoder(writer http.ResponseWriter, request *http.Request) {
	socket, err := coder.Accept(writer, request, nil)
	if err != nil {
		return
	}
	defer socket.CloseNow()
	for {
		if _, _, err := socket.Read(request.Context()); err != nil {
			return
		}
	}
}

func main() {
	handlers := map[string]http.HandlerFunc{"gorilla": serveGorilla, "coder": serveCoder, "tuned": serveTuned}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("serving http://%s\n", listener.Addr())
	go func() { log.Fatal(http.Serve(listener, handlers[os.Args[1]])) }()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		debug.FreeOSMemory()
		fmt.Println("done")
	}
}
