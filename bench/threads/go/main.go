// Go's goroutines, on one processor.
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

const (
	rounds   = 60
	switches = 20000
	spawns   = 5000
)

var best = 1e18

// measure records the minimum time of an operation.
func measure(operations int, run func()) {
	began := time.Now()
	run()
	if each := float64(time.Since(began).Nanoseconds()) / float64(operations); each < best {
		best = each
	}
}

// both runs fn in two goroutines, and waits for them.
func both(fn func(number int)) {
	var group sync.WaitGroup
	group.Add(2)
	for number := 0; number < 2; number++ {
		go func(number int) {
			fn(number)
			group.Done()
		}(number)
	}
	group.Wait()
}

func yieldOften(int) {
	for i := 0; i < switches; i++ {
		runtime.Gosched()
	}
}

func takeTurns() {
	var mutex sync.Mutex
	changed := [2]*sync.Cond{sync.NewCond(&mutex), sync.NewCond(&mutex)}
	turn := 0
	both(func(mine int) {
		for i := 0; i < switches; i++ {
			mutex.Lock()
			for turn != mine {
				changed[mine].Wait()
			}
			turn = 1 - mine
			changed[1-mine].Signal()
			mutex.Unlock()
		}
	})
}

func spawn() {
	var group sync.WaitGroup
	for i := 0; i < spawns; i++ {
		group.Add(1)
		go group.Done()
		group.Wait()
	}
}

func lock() {
	var mutex sync.Mutex
	for i := 0; i < switches; i++ {
		mutex.Lock()
		mutex.Unlock()
	}
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

// many blocks count goroutines, and wakes them.
func many(figure string, count int) {
	var group sync.WaitGroup
	never := make(chan struct{})
	name := "VmRSS"
	if figure == "tables" {
		name = "VmPTE"
	}
	before := field(name)
	group.Add(count)
	measure(count, func() {
		for i := 0; i < count; i++ {
			go func() {
				<-never
				group.Done()
			}()
		}
		runtime.Gosched()
	})
	if figure == "memory" || figure == "tables" {
		best = (field(name) - before) / float64(count)
	}
	if figure == "finish" {
		best = 1e18
		measure(count, func() {
			close(never)
			group.Wait()
		})
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	figure := os.Args[1]
	simple := map[string]struct {
		operations int
		run        func()
	}{
		"switch": {2 * switches, func() { both(yieldOften) }},
		"turns":  {2 * switches, takeTurns},
		"spawn":  {spawns, spawn},
		"mutex2": {switches, lock},
	}
	if found, ok := simple[figure]; ok {
		for round := 0; round < rounds; round++ {
			measure(found.operations, found.run)
		}
	} else if len(os.Args) > 2 {
		count, _ := strconv.Atoi(os.Args[2])
		many(figure, count)
	} else {
		os.Exit(2)
	}
	fmt.Printf("%.3f\n", best)
}
