// Many blocked goroutines, on one processor.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// timed returns the time of each of count operations, in ns.
func timed(count int, run func()) float64 {
	began := time.Now()
	run()
	return float64(time.Since(began).Nanoseconds()) / float64(count)
}

// field reads a field in kilobytes from /proc/self/status.
func field(name string) float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name+":" {
			kilobytes, _ := strconv.ParseFloat(words[1], 64)
			return kilobytes * 1024
		}
	}
	return 0
}

// measured blocks count goroutines, wakes them, and returns the figure of each.
func measured(figure string, count int) float64 {
	var group sync.WaitGroup
	never := make(chan struct{})
	memory, tables := field("VmRSS"), field("VmPTE")
	group.Add(count)
	created := timed(count, func() {
		for i := 0; i < count; i++ {
			go func() {
				<-never
				group.Done()
			}()
		}
		runtime.Gosched()
	})
	switch figure {
	case "memory":
		return (field("VmRSS") - memory) / float64(count)
	case "tables":
		return (field("VmPTE") - tables) / float64(count)
	case "create":
		return created
	}
	return timed(count, func() {
		close(never)
		group.Wait()
	})
}

func main() {
	runtime.GOMAXPROCS(1)
	if len(os.Args) != 3 {
		os.Exit(2)
	}
	count, _ := strconv.Atoi(os.Args[2])
	fmt.Printf("%.3f\n", measured(os.Args[1], count))
}
