package gitserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// TestMain plays ssh when git calls this binary in its place.
func TestMain(m *testing.M) {
	if addr := os.Getenv("LAB_SSH_RELAY"); addr != "" {
		os.Exit(standIn(addr, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func standIn(addr string, args []string) int {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 255
	}
	defer conn.Close()
	// git calls: ssh user@host command
	fmt.Fprintf(conn, "%s\n", strings.Join(args[1:], " "))
	go func() {
		io.Copy(conn, os.Stdin)
		conn.(*net.TCPConn).CloseWrite()
	}()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return 255
	}
	return 0
}

func relayOne(client *ssh.Client, in net.Conn) {
	defer in.Close()
	r := bufio.NewReader(in)
	command, err := r.ReadString('\n')
	if err != nil {
		return
	}
	s, err := client.NewSession()
	if err != nil {
		return
	}
	defer s.Close()
	s.Stdout = in
	w, err := s.StdinPipe()
	if err != nil {
		return
	}
	if err := s.Start(strings.TrimSpace(command)); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(w, r)
		w.Close()
	}()
	s.Wait()
	in.Close()
	<-done
}
