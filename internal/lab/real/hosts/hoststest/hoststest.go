// Package hoststest gives tests real hosts.
package hoststest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// Main runs the tests of a package where they can make hosts: in network,
// mount and process namespaces of their own, which the hosts don't outlive. A
// machine that can't, and `go test -short`, run them as they are; a test that
// needs hosts is then left out by Open.
//
//	func TestMain(m *testing.M) { os.Exit(hoststest.Main(m)) }
func Main(m *testing.M) int {
	flag.Parse()
	if hosts.Inside() {
		if err := hosts.Settle(); err != nil {
			fmt.Fprintln(os.Stderr, "setting up the hosts' namespaces:", err)
			return 1
		}
		return m.Run()
	}
	if testing.Short() || hosts.Missing() != "" {
		return m.Run()
	}
	root, err := hosts.Install(context.Background(), hosts.Config{Progress: func(s string) { fmt.Fprintln(os.Stderr, "hosts:", s) }})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code, err := hosts.Isolate(root, "/proc/self/exe", os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the tests in namespaces of their own:", err)
		return 1
	}
	return code
}

// Open makes a lab for a test, with a network "public" that the test is on
// (203.0.113.0/24) and a network "private" (10.77.0.0/16) that it isn't. The
// test is left out where the machine can't have hosts. A process has one lab at
// a time: such tests don't run in parallel.
func Open(t testing.TB) *hosts.Lab {
	t.Helper()
	skip.Slow(t, "it starts hosts")
	why := hosts.Missing()
	skip.Unless(t, why == "", "real hosts", why)
	l, err := hosts.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(l.Network("public", "203.0.113.10/24"), l.Network("private", "")); err != nil {
		t.Fatal(err)
	}
	return l
}
