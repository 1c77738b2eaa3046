// Program reach is what a job of the tests runs: for each argument, a way and an address, it prints whether the job gets there.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

func main() {
	for _, arg := range os.Args[1:] {
		way, to, _ := strings.Cut(arg, "=")
		word, err := try(way, to)
		if err != nil {
			word = "no: " + err.Error()
		}
		fmt.Printf("%s %s\n", arg, word)
	}
}

func try(way, to string) (string, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	switch way {
	case "bind":
		l, err := net.Listen("tcp", to)
		if err != nil {
			return "", err
		}
		return "yes", l.Close()
	case "tcp", "udp":
	case "tcp-device", "udp-device": // past the routing table
		way = strings.TrimSuffix(way, "-device")
		d.Control = func(_, _ string, c syscall.RawConn) error {
			var err error
			return firstOf(c.Control(func(fd uintptr) {
				err = syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, outer())
			}), func() error { return err })
		}
	case "unix":
		way = "unix"
	case "name":
		r := net.Resolver{PreferGo: true}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		all, err := r.LookupHost(ctx, to)
		return strings.Join(all, ","), err
	}
	c, err := d.Dial(way, to)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Write([]byte("hello\n")); err != nil {
		return "", err
	}
	answer := make([]byte, 100)
	n, err := c.Read(answer)
	return strings.TrimSpace(string(answer[:n])), err
}

func firstOf(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// outer is the interface that is not the loopback one.
func outer() string {
	all, _ := net.Interfaces()
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return i.Name
		}
	}
	return "none"
}
