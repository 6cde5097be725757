// Pages by net/http, as bench/fetch/get_pages.c gets them.
//
//	go URL GOROUTINES    gets N pages by GOROUTINES goroutines for each line "N" of its input, and
//	                     prints how many bytes they have
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

func get(client *http.Client, url string) int64 {
	response, err := client.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	return n
}

func main() {
	url := os.Args[1]
	goroutines, _ := strconv.Atoi(os.Args[2])
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: goroutines, MaxIdleConnsPerHost: goroutines}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		pages, _ := strconv.ParseInt(lines.Text(), 10, 64)
		var left, bytes atomic.Int64
		left.Store(pages)
		var group sync.WaitGroup
		for range goroutines {
			group.Add(1)
			go func() {
				defer group.Done()
				for left.Add(-1) >= 0 {
					bytes.Add(get(client, url))
				}
			}()
		}
		group.Wait()
		fmt.Println(bytes.Load())
	}
}
