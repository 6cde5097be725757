// Go's own web server: net/http with its file server, a goroutine for each connection.
//
//	go-http ROOT ADDRESS    serves the files below ROOT on a free port of the address, and announces it
//	go-http -v              tells Go's version
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-v" {
		fmt.Println(runtime.Version())
		return
	}
	if len(os.Args) != 3 {
		log.Fatal("usage: go-http ROOT ADDRESS | -v")
	}
	listener, err := net.Listen("tcp", os.Args[2]+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.FileServer(http.Dir(os.Args[1]))))
}
