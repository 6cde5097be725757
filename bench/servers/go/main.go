// Go's web server: net/http with its file server, a goroutine per connection.
//
//	go-http ROOT ADDRESS    serves the files below ROOT on a free port of the address, and prints the URL
//	go-http -app SIZE ADDRESS    responds to each request with SIZE bytes, from a handler
//	go-http -v              prints the version of Go
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-v" {
		fmt.Println(runtime.Version())
		return
	}
	if len(os.Args) != 3 && !(len(os.Args) == 4 && os.Args[1] == "-app") {
		log.Fatal("usage: go-http ROOT ADDRESS | -app SIZE ADDRESS | -v")
	}
	listener, err := net.Listen("tcp", os.Args[len(os.Args)-1]+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	if len(os.Args) == 3 {
		log.Fatal(http.Serve(listener, http.FileServer(http.Dir(os.Args[1]))))
	}
	size, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	page := make([]byte, size)
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		writer.Header().Set("Content-Type", "text/html")
		writer.Write(page)
	})))
}
