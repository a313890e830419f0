// Command kubernetes is the lab's Kubernetes: etcd, kube-apiserver and kube-controller-manager
// in one process, on loopback.
//
// It is started by the package internal/lab/apiserver, which writes the certificates, the
// policies and the components' flags (components.json) into one folder. It runs inside that
// folder, serves on the listener that it inherits as file descriptor 3, and ends when its
// standard input does, so that it can't outlive whoever started it.
//
// Called by the name etcd, kube-apiserver or kube-controller-manager, through a link, it is that
// one component alone, with the flags that upstream's program takes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"
	_ "time/tzdata"
)

// shutdownTime bounds how long the components may take to stop once they were asked to.
const shutdownTime = 5 * time.Second

// components are the flags of each component, as a person would type them.
type components struct {
	APIServer         []string `json:"kube-apiserver"`
	ControllerManager []string `json:"kube-controller-manager"`
}

func main() {
	if code, ok := runComponent(filepath.Base(os.Args[0])); ok {
		os.Exit(code)
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes DIR  (standard input open, a listener as file descriptor 3)")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

// run serves out of dir until standard input ends, a signal comes or a component fails.
func run(dir string) error {
	// Unix sockets have short names, so they are named relative to dir.
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("entering the cluster's folder: %w", err)
	}
	text, err := os.ReadFile("components.json")
	if err != nil {
		return fmt.Errorf("reading the components' flags: %w", err)
	}
	var flags components
	if err := json.Unmarshal(text, &flags); err != nil {
		return fmt.Errorf("reading the components' flags: %w", err)
	}
	file := os.NewFile(3, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("taking over the listener: %w", err)
	}
	_ = file.Close()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errParentEnded)
	}()

	etcd, err := startEtcd(ctx)
	if err != nil {
		return err
	}
	defer etcd.Close()

	failed := make(chan error, 2)
	go func() { failed <- runAPIServer(ctx, flags.APIServer, listener) }()
	running := 1
	if err := awaitReady(ctx, listener.Addr().String(), failed); err != nil {
		return err
	}
	// Once it serves, the heap is mostly schemas and caches that stay, and what the start left
	// behind: that goes back, and the rest is collected more often than by default.
	debug.SetGCPercent(40)
	debug.FreeOSMemory()
	go func() { failed <- runControllerManager(ctx, flags.ControllerManager) }()
	running++

	var first error
	select {
	case first = <-failed:
		running--
		cancel(first)
	case <-ctx.Done():
	}
	deadline := time.After(shutdownTime)
	for ; running > 0; running-- {
		select {
		case err := <-failed:
			first = errors.Join(first, err)
		case <-deadline:
			return first
		}
	}
	return first
}

var errParentEnded = errors.New("standard input ended")
