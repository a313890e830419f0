package apiproxy

import (
	"encoding/json"
	"net/http"
	"path"
	"regexp"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// A Fault makes requests to Kubernetes go wrong. Each gets the first that
// matches and isn't used up.
type Fault struct {
	ID     string `json:"id" doc:"name to clear it by; made up if empty"`
	Host   string `json:"host,omitempty" doc:"pattern of the name of the cluster's host, such as *-seed; all clusters if empty"`
	Method string `json:"method,omitempty" doc:"HTTP method, or write for all that change something; an apply is a PATCH; any if empty"`
	Path   string `json:"path,omitempty" doc:"regular expression, searched in the path with the query: dryRun=All is in that of a trial"`
	Skip   int    `json:"skip,omitempty" doc:"matching requests to let pass first"`
	Count  int    `json:"count,omitempty" doc:"how often; 0 is once, -1 always"`
	Chance int    `json:"chance,omitempty" doc:"at how many of 100 matching requests; 0 is all"`

	Status     int    `json:"status,omitempty" doc:"answer with this: 409 is a conflict"`
	Reason     string `json:"reason,omitempty" doc:"reason of that answer, such as AlreadyExists; the usual one of the status by default"`
	Message    string `json:"message,omitempty" doc:"message of that answer"`
	RetryAfter string `json:"retry_after,omitempty" doc:"header of that answer: seconds, an HTTP date, or +2s for the date in 2 s"`
	Effect     bool   `json:"effect,omitempty" doc:"the request takes effect before status is answered"`
	Reset      string `json:"reset,omitempty" doc:"before or after: when the connection breaks, seen from the effect; all requests on it break"`
	Cut        bool   `json:"cut,omitempty" doc:"the connection breaks after half of the answer"`
	End        bool   `json:"end,omitempty" doc:"a watch ends: in good order after its first event, or after delay_ms"`
	DelayMS    int    `json:"delay_ms,omitempty" doc:"wait before anything else"`

	Hits int `json:"hits"` // how often it acted

	path *regexp.Regexp
}

// NewFaults returns an empty set of faults, for all proxies of a lab.
func NewFaults() *inject.Set[Fault] {
	return inject.New("kubernetes", func(f *Fault) inject.Turns {
		return inject.Turns{ID: &f.ID, Skip: &f.Skip, Count: &f.Count, Chance: &f.Chance, Hits: &f.Hits}
	})
}

// Inject adds a fault to a set and returns its id. The error is of kind
// Invalid.
func Inject(set *inject.Set[Fault], f Fault) (string, error) {
	var err error
	if f.path, err = regexp.Compile(f.Path); err != nil {
		return "", fault.New(fault.Invalid, "path: %v", err)
	}
	if _, err := path.Match(f.Host, ""); err != nil {
		return "", fault.New(fault.Invalid, "host: %q is no pattern", f.Host)
	}
	switch {
	case f.Reset != "" && f.Reset != "before" && f.Reset != "after":
		return "", fault.New(fault.Invalid, "reset is before or after, not %q", f.Reset)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return "", fault.New(fault.Invalid, "status lies between 400 and 599, not %d", f.Status)
	case f.Status == 0 && f.Reset == "" && !f.Cut && !f.End && f.DelayMS == 0:
		return "", fault.New(fault.Invalid, "the fault does nothing: give status, reset, cut, end or delay_ms")
	}
	return set.Add(f), nil
}

// take returns the fault that a request to the cluster of a host gets, or nil.
func take(set *inject.Set[Fault], host string, r *http.Request) *Fault {
	uri := r.URL.RequestURI()
	return set.Take(func(f *Fault) bool {
		here, err := path.Match(f.Host, host)
		return (f.Host == "" || here && err == nil) && inject.Method(f.Method, r.Method) && (f.Method != inject.Writes || !r.URL.Query().Has("dryRun")) &&
			f.path.MatchString(uri) && (!f.End || r.URL.Query().Has("watch"))
	})
}

// answer is the one of status, as an API server writes it.
func (f *Fault) answer(w http.ResponseWriter) {
	s := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(f.Status), Reason: metav1.StatusReason(f.Reason), Message: f.Message}
	if s.Message == "" {
		s.Message = "the lab was told to answer so"
	}
	if s.Reason == "" {
		s.Reason = reason(f.Status)
	}
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", inject.RetryAfter(f.RetryAfter))
		if n, err := strconv.Atoi(f.RetryAfter); err == nil {
			s.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(n)}
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write(text) // fails only if the client has gone
}

func reason(status int) metav1.StatusReason {
	switch status {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusGone:
		return metav1.StatusReasonExpired
	case http.StatusUnprocessableEntity:
		return metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		return metav1.StatusReasonTimeout
	}
	return metav1.StatusReasonUnknown
}
