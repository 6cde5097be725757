// Asks an https server for the same page, and posts bodies to it, all at once over one connection of HTTP/2:
//
//	http2_client URL CERTIFICATE REQUESTS
//
// URL returns the body that it is sent. Prints how many answers were right.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// Whether the answer to a body of this size, which is sent in chunks, is the same body.
func isRight(client *http.Client, url string, size int) error {
	body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	answer, err := client.Post(url, "application/octet-stream", io.MultiReader(bytes.NewReader(body)))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	received, err := io.ReadAll(answer.Body)
	if err == nil && (answer.ProtoMajor != 2 || answer.StatusCode != 200 || !bytes.Equal(received, body)) {
		err = fmt.Errorf("HTTP/%d, status %d, %d bytes", answer.ProtoMajor, answer.StatusCode, len(received))
	}
	return err
}

func main() {
	certificate, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	requests, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, MaxConnsPerHost: 1}}
	var right atomic.Int32
	var group sync.WaitGroup
	for i := 0; i < requests; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := isRight(client, os.Args[1], i*1600); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			right.Add(1)
		}()
	}
	group.Wait()
	fmt.Println(right.Load())
}
