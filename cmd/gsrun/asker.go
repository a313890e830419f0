package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// answerPause is the time between two looks for an answer that another process
// gave.
const answerPause = 200 * time.Millisecond

// An asker puts the questions of a run to people: at the terminal, if there is
// one, and to whoever calls gsrun approve.
type asker struct {
	store   *journal.Store
	journal *journal.Journal
	run     string
	place   string // the flags that name the site
	yes     bool   // approve all
	prompt  *prompt

	mu       sync.Mutex
	approved map[string]effect.Answer // by the id of the question
}

func (a *app) asker(x *session, j *journal.Journal, run string, f *runFlags) *asker {
	k := &asker{store: x.store, journal: j, run: run, yes: f.yes, place: f.place.args(x.site.Dir), approved: make(map[string]effect.Answer)}
	if past := j.Past(); past != nil {
		for id, ans := range past.Approved {
			k.approved[id] = ans
		}
	}
	in, _ := a.stdin.(*os.File)
	out, _ := a.stderr.(*os.File)
	if view.Kind(f.output) != view.JSON {
		k.prompt = newPrompt(in, out)
	}
	return k
}

// args returns the flags that name the same site in another terminal.
func (p place) args(dir string) string {
	var args []string
	if p.lab {
		args = append(args, "--lab")
	}
	if p.site != "" || !p.lab {
		args = append(args, "--site "+dir) // whole: it is for another terminal
	}
	return strings.Join(args, " ")
}

// Ask waits until a person answers a question.
func (k *asker) Ask(ctx context.Context, q effect.Question, asked func(how string)) (effect.Answer, error) {
	k.mu.Lock()
	ans, ok := k.approved[q.ID]
	k.mu.Unlock()
	if ok {
		return ans, nil
	}
	if err := k.journal.Ask(q); err != nil {
		return ans, err
	}
	ans, given, err := k.answer(ctx, q, asked)
	if err != nil {
		return ans, err
	}
	if err := k.journal.Answer(q, ans); err != nil {
		return ans, err
	}
	if given {
		if err := k.store.ForgetAnswer(k.run, q.ID); err != nil {
			return ans, err
		}
	}
	if ans.Approved {
		k.mu.Lock()
		k.approved[q.ID] = ans
		k.mu.Unlock()
	}
	return ans, nil
}

// answer returns the answer, and whether another process gave it.
func (k *asker) answer(ctx context.Context, q effect.Question, asked func(how string)) (ans effect.Answer, given bool, err error) {
	if k.yes {
		asked("")
		return effect.Answer{Approved: true, By: person() + " by --yes", At: time.Now()}, false, nil
	}
	how := "gsrun approve " + k.run + " --question " + shortID(q) + " " + k.place
	var typed <-chan bool
	if k.prompt.usable() {
		ctx, stop := context.WithCancel(ctx)
		answered := make(chan bool, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			// One at a time: the others are told of when it is their turn.
			k.prompt.yesOrNo(ctx, func() { asked("press y or n here (Enter is n), or: " + how) }, answered)
		})
		typed = answered
		defer wg.Wait()
		defer stop()
	} else {
		asked(how)
	}
	for {
		if ans, given, err = k.store.GivenAnswer(k.run, q.ID); given || err != nil {
			return ans, given, err
		}
		select {
		case yes := <-typed:
			return effect.Answer{Approved: yes, By: person(), At: time.Now()}, false, nil
		case <-time.After(answerPause):
		case <-ctx.Done():
			err := fault.FromContext(ctx)
			if fault.KindOf(err) == fault.Timeout {
				err = &fault.Error{Kind: fault.Timeout, Hint: "be asked again: gsrun resume " + k.run + " " + k.place, Err: err}
			}
			return ans, false, err
		}
	}
}

// person says who sits at this process: user@host.
func person() string {
	who, _, _ := strings.Cut(holder(), " pid ")
	return who
}
