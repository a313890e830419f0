package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Remote makes a lab go wrong that runs as a process of its own.
type Remote struct{ url string }

// Remote returns what makes the lab go wrong.
func (i *Info) Remote() Remote { return Remote{i.Control} }

const (
	controlTime = 30 * time.Second // for one call
	maxSpec     = 1 << 20          // bytes of a fault
)

// refused is how the lab's process says that it didn't do what it was asked.
type refused struct {
	Kind  fault.Kind `json:"kind"`
	Hint  string     `json:"hint,omitempty"`
	Error string     `json:"error"`
}

// Inject adds a fault to a part of the lab.
func (r Remote) Inject(part string, spec []byte) (string, error) {
	var out struct{ ID string }
	err := r.call(http.MethodPost, "/faults/"+url.PathEscape(part), spec, &out)
	return out.ID, err
}

// Faults lists the faults of all parts.
func (r Remote) Faults() ([]Injected, error) {
	var out []Injected
	err := r.call(http.MethodGet, "/faults", nil, &out)
	return out, err
}

// ClearFaults removes faults of any part.
func (r Remote) ClearFaults(id string) (int, error) {
	var out struct{ Cleared int }
	err := r.call(http.MethodDelete, "/faults?"+url.Values{"id": {id}}.Encode(), nil, &out)
	return out.Cleared, err
}

func (r Remote) call(method, path string, body []byte, out any) error {
	fail := func(err error) error {
		return &fault.Error{Op: "asking", Target: "the lab", Kind: fault.Unreachable, Err: err}
	}
	req, err := http.NewRequest(method, r.url+path, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	// The lab is on this machine, whatever proxy the environment names.
	client := http.Client{Timeout: controlTime, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fail(err)
	}
	if resp.StatusCode != http.StatusOK {
		var no refused
		if err := json.Unmarshal(text, &no); err != nil || no.Error == "" {
			return fault.New(fault.Internal, "the lab answered %s", resp.Status)
		}
		return fault.Hinted(no.Kind, no.Hint, "%s", no.Error)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fault.New(fault.Internal, "reading the lab's answer: %v", err)
	}
	return nil
}

// control is what answers a Remote.
func (l *Lab) control() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			status := http.StatusOK
			out, err := f(r)
			if err != nil {
				status, out = http.StatusBadRequest, refused{fault.KindOf(err), fault.HintOf(err), err.Error()}
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(out) // fails only if the caller has gone
		})
	}
	handle("GET /faults", func(*http.Request) (any, error) { return l.Faults() })
	handle("POST /faults/{part}", func(r *http.Request) (any, error) {
		spec, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxSpec))
		if err != nil {
			return nil, fault.New(fault.Invalid, "reading the fault: %v", err)
		}
		id, err := l.Inject(r.PathValue("part"), spec)
		return map[string]string{"id": id}, err
	})
	handle("DELETE /faults", func(r *http.Request) (any, error) {
		n, err := l.ClearFaults(r.URL.Query().Get("id"))
		return map[string]int{"cleared": n}, err
	})
	return mux
}
