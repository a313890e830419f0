package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TTL is how long a lock outlasts its holder's last heartbeat, unless the
// holder says otherwise.
const TTL = 30 * time.Second

// patience is how long Lock tries while somebody else is busy with the lock
// file: it takes a moment to take or free a lock.
const patience = time.Second

// A Holder says who holds a lock of which recipe and site, and since when. A
// run fills in what stands before Token; Lock does the rest.
type Holder struct {
	Site     string        `json:"site"`
	Recipe   string        `json:"recipe"`
	Run      string        `json:"run"`
	Who      string        `json:"who"` // user@host pid
	Since    time.Time     `json:"since"`
	TTL      time.Duration `json:"ttl"`   // how long the lock outlasts the last heartbeat, in ns; 0 means TTL
	Token    int64         `json:"token"` // grows with each holder
	Released bool          `json:"released,omitempty"`
	process
}

// A Lock keeps a second run of the same recipe from the same site: of two that
// hold it, one after the other, the first makes no change after the second took
// it, however long either was paused.
//
// Two files make a lock. NAME.json is the holder's record. It is replaced as a
// whole by the next holder, so that a heartbeat, which touches the file that
// the holder wrote, can't bring back a lock that was taken over. NAME.lock is
// empty and stays: its holder has it flocked, shared, within each change, and
// who takes the lock has it exclusively while he looks and writes. So a lock is
// never taken in the middle of a change, and a change never begins after it was
// taken.
type Lock struct {
	path     string // of the record
	holder   Holder
	patience time.Duration

	record *os.File        // the record as this holder wrote it, for the heartbeat
	life   context.Context // ends when the lock is lost or released
	end    context.CancelCauseFunc
	beats  sync.WaitGroup // the heartbeat

	mu       sync.Mutex // guards what follows
	gate     *os.File   // NAME.lock
	inside   int        // changes that are being made
	released bool
}

// Lock takes the lock of a recipe and site, or says who has it. It is free if nobody
// has taken it, if its holder has released it or is known to be dead, and if
// there was no heartbeat for the holder's TTL; but not while its holder is in
// the middle of a change.
func (s *Store) Lock(h Holder) (*Lock, error) {
	if h.TTL == 0 {
		h.TTL = TTL
	}
	h.process = thisProcess()
	name := filepath.Join(s.dir, "locks", url.PathEscape(h.Site+"/"+h.Recipe))
	l := &Lock{path: name + ".json", holder: h, patience: s.patience}
	gate := name + ".lock"
	var err error
	if l.gate, err = os.OpenFile(gate, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, unwritable("taking lock", gate, err)
	}
	if err := l.take(); err != nil {
		return nil, errors.Join(err, l.gate.Close())
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	l.beats.Go(l.beat)
	return l, nil
}

func (l *Lock) String() string {
	return fmt.Sprintf("recipe %s of site %s", l.holder.Recipe, l.holder.Site)
}

// take makes l's holder the holder.
func (l *Lock) take() error {
	start := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		// A lock that is held is left alone: its holder would have to wait for us.
		if err := l.held(); err != nil {
			return err
		}
		err := flock(l.gate, syscall.LOCK_EX)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return unwritable("taking lock", l.gate.Name(), err)
		}
		if time.Since(start) > l.patience {
			return l.busy()
		}
		time.Sleep(pause)
	}
	err := l.held()
	if err == nil {
		err = l.write()
	}
	if err == nil {
		if l.record, err = os.OpenFile(l.path, os.O_RDWR, 0); err != nil {
			err = unwritable("taking lock", l.path, err)
		}
	}
	return errors.Join(err, flock(l.gate, syscall.LOCK_UN))
}

// held returns an error that says who holds the lock, if somebody does.
func (l *Lock) held() error {
	now, beat, err := readHolder(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.holder.Token = 1
		return nil
	}
	if err != nil {
		return err
	}
	l.holder.Token = now.Token + 1
	if !now.alive(beat) {
		return nil
	}
	hint := "wait until it ends"
	if now.process.elsewhere() {
		hint = fmt.Sprintf("wait until it ends; if its process is gone, its lock is free %s after the last heartbeat", now.TTL)
	}
	return fault.Hinted(fault.Locked, hint, "%s is being run by %s", l, now.describe(time.Since(beat)))
}

// busy says that somebody has the lock file though nobody seems to hold the
// lock.
func (l *Lock) busy() error {
	now, beat, err := readHolder(l.path)
	if err != nil {
		return fault.Hinted(fault.Locked, "run again in a moment", "another run is taking the lock of %s", l)
	}
	return fault.Hinted(fault.Locked, fmt.Sprintf("its process may be paused or stuck: let it go on, or end it (pid %d on %s)", now.PID, now.Host),
		"%s can't be taken over in the middle of a change; its last holder is %s", l, now.describe(time.Since(beat)))
}

// alive reports whether a holder whose last heartbeat was at beat holds its
// lock still, as far as can be known.
func (h Holder) alive(beat time.Time) bool {
	return !h.Released && time.Since(beat) <= h.TTL && !h.process.dead()
}

// working returns the runs that a process works at.
func (s *Store) working() map[string]bool {
	runs := make(map[string]bool)
	records, err := filepath.Glob(filepath.Join(s.dir, "locks", "*.json"))
	if err != nil {
		return runs
	}
	for _, path := range records {
		if h, beat, err := readHolder(path); err == nil && h.alive(beat) {
			runs[h.Run] = true
		}
	}
	return runs
}

func (h Holder) describe(age time.Duration) string {
	return fmt.Sprintf("%s (run %s, since %s, last heartbeat %s ago)", h.Who, h.Run, h.Since.Format(time.RFC3339), max(age, 0).Round(time.Second))
}

// write makes the record say what l.holder says.
func (l *Lock) write() error {
	data, err := json.Marshal(l.holder)
	if err != nil {
		return &fault.Error{Op: "taking lock", Target: l.path, Kind: fault.Internal, Err: err}
	}
	if err := durable.WriteFile(l.path, append(data, '\n'), 0o600); err != nil {
		return unwritable("taking lock", l.path, err)
	}
	return nil
}

// readHolder reads a record, and when its holder touched it last.
func readHolder(path string) (Holder, time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			err = unwritable("reading lock", path, err)
		}
		return Holder{}, time.Time{}, err
	}
	defer f.Close()
	// Both from one file: it may be replaced meanwhile.
	info, err := f.Stat()
	if err != nil {
		return Holder{}, time.Time{}, unwritable("reading lock", path, err)
	}
	var h Holder
	if err := json.NewDecoder(f).Decode(&h); err != nil {
		return Holder{}, time.Time{}, &fault.Error{Op: "reading lock", Target: path, Kind: fault.Invalid, Err: err,
			Hint: "gsrun wrote no such file; remove it if nobody runs this recipe"}
	}
	return h, info.ModTime(), nil
}

// Guard is an effect.Guard. Until leave is called, nobody can take the lock
// over. The error says who did.
func (l *Lock) Guard(ctx context.Context) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil, fault.New(fault.Internal, "the lock of %s was released", l)
	}
	if l.inside == 0 { // else nobody can have taken it over
		// Others have the file for the moment that it takes to look at it.
		if err := l.enter(ctx, syscall.LOCK_SH, l.holder.TTL); err != nil {
			return nil, err
		}
		if err := l.check(); err != nil {
			_ = flock(l.gate, syscall.LOCK_UN) // it can't fail on a file that is open
			return nil, err
		}
	}
	l.inside++
	return sync.OnceFunc(l.leave), nil
}

func (l *Lock) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside--; l.inside > 0 {
		return
	}
	if l.released {
		l.free()
		return
	}
	_ = flock(l.gate, syscall.LOCK_UN) // it can't fail on a file that is open
}

// enter flocks the gate as soon as nobody else has it in a way that forbids it.
func (l *Lock) enter(ctx context.Context, how int, longest time.Duration) error {
	start := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := flock(l.gate, how)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return &fault.Error{Op: "checking lock", Target: l.gate.Name(), Kind: fault.Failed, Err: err}
		case time.Since(start) > longest:
			return fault.Hinted(fault.Locked, "run again", "somebody has begun to take over the lock of %s", l)
		}
		select {
		case <-ctx.Done():
			return fault.FromContext(ctx)
		case <-time.After(pause):
		}
	}
}

// check returns an error if the lock isn't l's any more, and ends its life.
func (l *Lock) check() error {
	if l.untouched() {
		return nil
	}
	now, _, err := readHolder(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fault.Hinted(fault.Locked, "run again", "the lock of %s was removed", l)
	case err != nil:
		return err
	case now.Token == l.holder.Token && now.Run == l.holder.Run:
		return nil
	case now.Released:
		err = fault.Hinted(fault.Locked, "run again", "the lock of %s was taken over by %s (run %s), which has ended", l, now.Who, now.Run)
	default:
		err = fault.Hinted(fault.Locked, "run again once that one has ended", "the lock of %s was taken over by %s (run %s)", l, now.Who, now.Run)
	}
	l.end(err)
	return context.Cause(l.life) // the first one that was found
}

// untouched reports whether the record is the file that l wrote: another holder
// replaces it.
func (l *Lock) untouched() bool {
	mine, err := l.record.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(l.path)
	return err == nil && os.SameFile(mine, now)
}

// beat shows that the holder lives, and finds out if the lock was taken over.
func (l *Lock) beat() {
	tick := time.NewTicker(l.holder.TTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-l.life.Done():
			return
		case <-tick.C:
		}
		l.touch(time.Now())
		_ = l.check()
	}
}

// touch sets the time of the last heartbeat. One that fails isn't the end:
// Guard finds out whether one too many did.
func (l *Lock) touch(at time.Time) {
	tv := syscall.NsecToTimeval(at.UnixNano())
	_ = syscall.Futimes(int(l.record.Fd()), []syscall.Timeval{tv, tv})
}

// Context returns a context that ends with an error of kind Locked when the
// lock is lost, and when it is released.
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Release frees the lock, once no change is being made any more.
func (l *Lock) Release() {
	l.end(nil)
	l.beats.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return
	}
	l.released = true
	if l.inside == 0 {
		l.free()
	}
}

func (l *Lock) free() {
	defer l.gate.Close()
	defer l.record.Close()
	if l.enter(context.Background(), syscall.LOCK_EX, l.patience) != nil || l.check() != nil {
		return
	}
	l.holder.Released = true
	if l.write() != nil {
		l.touch(time.Unix(0, 0)) // on a full disk it expires instead
	}
}

// flock doesn't wait: the error is EWOULDBLOCK if somebody else has the file.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
