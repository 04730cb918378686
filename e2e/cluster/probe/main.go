// Command probe says whether TCP connections come about. The tests of the test bed run it on nodes and in pods.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// patience is how long a connection may take that nothing hinders.
const patience = time.Second

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: probe serve PORT... | probe dial ADDRESS:PORT")
		os.Exit(2)
	}
	if os.Args[1] == "dial" {
		fmt.Println(dial(os.Args[2]))
		return
	}
	for _, port := range os.Args[2:] {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go serve(l)
	}
	select {}
}

// serve closes every connection, which the client sees as the end of its input.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_ = c.Close()
	}
}

// dial returns "connected", "refused" if the other side answers so, "no answer", or another error.
func dial(address string) string {
	c, err := net.DialTimeout("tcp", address, patience)
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	case err != nil:
		return err.Error()
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(patience)) // fails only on a closed connection
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Sprint("connected, but then: ", err)
	}
	return "connected"
}
