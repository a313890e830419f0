package main

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// The moments in which a run is killed while it makes a change.
const (
	beforeIt = "before" // right before a request; the intent is journalled
	halfIt   = "half"   // a request has begun: its headers are sent, or its command runs
	sentIt   = "sent"   // right after a request was sent
	doneIt   = "done"   // after the last answer, before the result is journalled
)

// A point is a moment in the life of a change: "sent 1 create lab/network/mgmt".
// Requests are counted within the change, which runs beside others.
func point(moment string, request int, r effect.Record) string {
	return fmt.Sprintf("%s %d %s %s", moment, request, r.Kind, r.Target)
}

// Environment variables by which a test has the gsrun that it calls kill itself.
const (
	deathsVariable  = "GSRUN_TEST_DEATHS"  // file of the points at which runs have died already
	momentsVariable = "GSRUN_TEST_MOMENTS" // moments to die at, with commas; the first point that wasn't yet died at is taken
	eachVariable    = "GSRUN_TEST_EACH"    // of each class of points so many are died at; 0 means all, and changes are made one at a time, so that none gets past its point
)

// killable is gsrun, but for its death.
func killable() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	if file := os.Getenv(deathsVariable); file != "" {
		r, err := newReaper(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
		a.watch = func(d *effect.Door) { d.Around = r.around }
	}
	os.Exit(a.run(os.Args[1:]))
}

// A reaper kills its own process at the first point at which none has died.
type reaper struct {
	file    string
	moments []string
	each    int

	alone  sync.Mutex // held by a change, if all points are died at
	mu     sync.Mutex
	deaths map[string]bool
	per    map[string]int // deaths by class
}

func newReaper(file string) (*reaper, error) {
	r := &reaper{file: file, moments: strings.Split(os.Getenv(momentsVariable), ","), deaths: make(map[string]bool), per: make(map[string]int)}
	if text := os.Getenv(eachVariable); text != "" {
		if _, err := fmt.Sscan(text, &r.each); err != nil {
			return nil, err
		}
	}
	all, err := readDeaths(file)
	for _, p := range all {
		r.deaths[p] = true
		r.per[class(p)]++
	}
	return r, err
}

func readDeaths(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), err
}

// class is what points of the same kind of change have in common: "sent create
// openstack/network". Of objects of Kubernetes their API group counts.
func class(p string) string {
	fields := strings.SplitN(p, " ", 4)
	parts := strings.Split(fields[3], "/")
	kind := parts[0]
	if len(parts) > 2 {
		kind += "/" + parts[2]
	}
	if group := strings.SplitN(kind, ".", 2); parts[0] == "kube" && len(group) == 2 {
		kind = "kube/" + group[1]
	} else if parts[0] == "kube" {
		kind = "kube"
	}
	return fields[0] + " " + fields[2] + " " + kind
}

// around makes a change, and dies on the way.
func (r *reaper) around(ctx context.Context, rec effect.Record, apply func(context.Context) (effect.State, error)) (effect.State, error) {
	if r.each == 0 {
		r.alone.Lock()
		defer r.alone.Unlock()
	}
	var mu sync.Mutex
	begun := 0
	at := func(moment string) {
		mu.Lock()
		n := begun
		mu.Unlock()
		r.pass(point(moment, n, rec))
	}
	trace := &httptrace.ClientTrace{
		GetConn: func(string) {
			mu.Lock()
			begun++
			first := begun == 1
			mu.Unlock()
			if !first {
				at(beforeIt)
			}
		},
		WroteHeaders: func() { at(halfIt) },
		WroteRequest: func(httptrace.WroteRequestInfo) { at(sentIt) },
	}
	at(beforeIt) // the first request, if there is any: some changes are made here
	st, err := apply(httptrace.WithClientTrace(ctx, trace))
	if err == nil {
		mu.Lock()
		begun = 0
		mu.Unlock()
		at(doneIt)
	}
	return st, err
}

// pass kills the process if this is the point.
func (r *reaper) pass(p string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	moment, _, _ := strings.Cut(p, " ")
	if r.deaths[p] || !slices.Contains(r.moments, moment) || r.each > 0 && r.per[class(p)] >= r.each {
		return
	}
	f, err := os.OpenFile(r.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(p + "\n")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // it may take a moment
}
