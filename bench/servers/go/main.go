// Go's web server: net/http with its file server, a goroutine per connection.
//
//	go-http ROOT ADDRESS    serves the files below ROOT on a free port of the address, and prints the URL
//	go-http -v              prints the version of Go
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
