// Asks an https server for two pages, on two connections, of which the second resumes the session of the first one:
//
//	tls_client ADDRESS CERTIFICATE VERSION PAGE PAGE
//
// Prints for each the protocol (ALPN), whether the session was resumed, and the SHA-256 of the answer's body.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

func get(address, page string, config *tls.Config) error {
	connection, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", page)
	// An end without close_notify is an error here.
	answer, err := io.ReadAll(connection)
	if err != nil {
		return err
	}
	_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	state := connection.ConnectionState()
	fmt.Printf("%s %t %x\n", state.NegotiatedProtocol, state.DidResume, sha256.Sum256(body))
	return nil
}

func main() {
	certificate, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	version := map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[os.Args[3]]
	config := &tls.Config{
		ServerName:         "localhost",
		RootCAs:            x509.NewCertPool(),
		MinVersion:         version,
		MaxVersion:         version,
		NextProtos:         []string{"http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	config.RootCAs.AppendCertsFromPEM(certificate)
	for _, page := range os.Args[4:] {
		if err := get(os.Args[1], page, config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
