package main

import (
	"context"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
)

// A prompt reads answers from the terminal. It takes single keys and lets the
// terminal echo none: the cursor stands where the view wants it.
type prompt struct {
	fd int
	mu sync.Mutex // held while a question is answered
}

// newPrompt returns the prompt of a terminal, nil if in and out aren't both one.
func newPrompt(in, out *os.File) *prompt {
	if !view.IsTerminal(in) || !view.IsTerminal(out) {
		return nil
	}
	return &prompt{fd: int(in.Fd())}
}

// usable reports whether somebody sits at the terminal: a process in the
// background would be stopped by reading from it.
func (p *prompt) usable() bool {
	if p == nil {
		return false
	}
	group, err := unix.IoctlGetInt(p.fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // a terminal that controls nobody stops nobody
}

// keyPause is how long, in milliseconds, a wait for a key goes on before it
// looks whether an answer is still wanted.
const keyPause = 100

// yesOrNo calls ready once it is this question's turn, and sends the answer
// unless ctx ends first: yes for y, no for n and Enter.
func (p *prompt) yesOrNo(ctx context.Context, ready func(), answer chan<- bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	before, err := unix.IoctlGetTermios(p.fd, unix.TCGETS)
	if err != nil {
		ready()
		return // it is answered from elsewhere
	}
	keys := *before
	keys.Lflag &^= unix.ECHO | unix.ICANON
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	// TCSETSF drops what was typed before the question was seen.
	if unix.IoctlSetTermios(p.fd, unix.TCSETSF, &keys) == nil {
		defer func() { _ = unix.IoctlSetTermios(p.fd, unix.TCSETSF, before) }() // a terminal that is gone needs none
	}
	ready()
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, keyPause); err != nil && err != unix.EINTR {
			return
		} else if n == 0 || err != nil {
			continue
		}
		var key [1]byte
		n, err := unix.Read(p.fd, key[:])
		if err != nil || n == 0 {
			return // the terminal is gone
		}
		switch key[0] {
		case 'y', 'Y':
			answer <- true
			return
		case 'n', 'N', '\n', '\r':
			answer <- false
			return
		}
	}
}
