package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// calm hands to the caller what client-go would try again by itself, up to ten
// times, silently and for as long as the server asks: answers with the header
// Retry-After, and reads whose connection broke. An answer that is cut off is
// an error too.
type calm struct{ next http.RoundTripper }

// maxRefusal is how much of an answer that refuses is read.
const maxRefusal = 1 << 20

// RoundTrip sends a request once.
func (c calm) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		if utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err) {
			// client-go recognizes them by their texts too.
			err = fault.Hinted(fault.Unreachable, "the API server, or what is on the way to it, may have been restarted", "the connection broke before the answer came")
		}
		return nil, err
	}
	after := resp.Header.Get("Retry-After")
	refused := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError
	if after == "" || !refused {
		if q := r.URL.Query(); resp.StatusCode == http.StatusSwitchingProtocols || q.Has("watch") || q.Has("follow") {
			return resp, nil
		}
		return whole(resp)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // what came of it is told
	e := fault.New(fault.Unavailable, "the API server answered %s", resp.Status)
	var s metav1.Status
	if json.Unmarshal(text, &s) == nil && s.Kind == "Status" && s.Message != "" {
		e = refusal(s)
		e.Err = fmt.Errorf("the API server answered %s: %w", resp.Status, e.Err)
	}
	e.After = fault.RetryAfter(after, resp.Header.Get("Date"))
	return nil, e
}

// whole reads an answer to its end, as the caller would, who writes to
// standard error if it is cut off.
func whole(resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fault.New(fault.Unreachable, "the connection broke after %d bytes of the answer", len(text))
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// WrappedRoundTripper returns what calm is around, for those who look for the
// transport.
func (c calm) WrappedRoundTripper() http.RoundTripper { return c.next }
