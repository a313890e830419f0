package view

import (
	"fmt"
	"io"
	"testing"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// BenchmarkEvent is what one event costs the step that emits it.
func BenchmarkEvent(b *testing.B) {
	change := &effect.Change{Kind: effect.Update, Fields: []effect.Field{{Path: "mode", Old: "0644", New: "0600"}}}
	for _, kind := range []Kind{Plain, JSON, Tree} {
		b.Run(string(kind), func(b *testing.B) {
			v := New(Config{Kind: kind, Out: io.Discard, Err: io.Discard})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				v.Event(effect.Event{Time: epoch, Kind: effect.OpEnd, Step: "gateway/nat", Target: "ssh/gw/file/etc/nftables.conf", Change: change})
			}
			if err := v.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkFrame is one picture of a large tree; there are at most ten a second.
func BenchmarkFrame(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := newModel(&Config{Clock: newHandClock(), Color: true})
			for _, e := range stepEvents(n) {
				m.apply(e)
			}
			for i := 0; b.Loop(); i++ {
				m.frame(120, 40, i, false)
			}
		})
	}
}
