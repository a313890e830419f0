package kube

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestFailure(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: message,
			Details: &metav1.StatusDetails{Name: "x", Causes: causes}}}
	}
	tooMany := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "slow down", Details: &metav1.StatusDetails{RetryAfterSeconds: 7}}}
	for name, test := range map[string]struct {
		err       error
		kind      fault.Kind
		says      string
		hint      string
		retryable bool
	}{
		"not found":        {err: status(404, metav1.StatusReasonNotFound, `pods "x" not found`), kind: fault.NotFound, says: `pods "x" not found`},
		"no such path":     {err: &apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}}, kind: fault.Unavailable, retryable: true},
		"exists":           {err: status(409, metav1.StatusReasonAlreadyExists, "already exists"), kind: fault.Exists},
		"conflict":         {err: status(409, metav1.StatusReasonConflict, "the object has been modified"), kind: fault.Conflict, retryable: true},
		"managed":          {err: status(409, metav1.StatusReasonConflict, "Apply failed", metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec.replicas", Message: `conflict with "hpa" using apps/v1`}), kind: fault.Exists, says: `spec.replicas (conflict with "hpa"`, hint: "force = True"},
		"unauthorized":     {err: status(401, metav1.StatusReasonUnauthorized, "Unauthorized"), kind: fault.Denied, hint: "credentials"},
		"forbidden":        {err: status(403, metav1.StatusReasonForbidden, `pods is forbidden: User "a" cannot list resource "pods"`), kind: fault.Denied, hint: "role"},
		"quota":            {err: status(403, metav1.StatusReasonForbidden, `pods "x" is forbidden: exceeded quota: q, requested: pods=1`), kind: fault.Quota, hint: "ResourceQuota"},
		"going":            {err: status(403, metav1.StatusReasonForbidden, "unable to create", metav1.StatusCause{Type: "NamespaceTerminating"}), kind: fault.Conflict, hint: "being deleted", retryable: true},
		"refused":          {err: status(403, metav1.StatusReasonForbidden, `admission webhook "a.b" denied the request: no`), kind: fault.Invalid},
		"refused by rule":  {err: status(422, metav1.StatusReasonInvalid, `ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), kind: fault.Invalid},
		"invalid":          {err: status(422, metav1.StatusReasonInvalid, "x is invalid", metav1.StatusCause{Field: "spec.a", Message: "Required value"}, metav1.StatusCause{Field: "spec.b", Message: "field is immutable"}), kind: fault.Invalid, says: "spec.a: Required value; spec.b: field is immutable", hint: "can't be changed"},
		"no schema":        {err: status(500, metav1.StatusReasonInternalError, "failed to create typed patch object (x): .spec.a: field not declared in schema"), kind: fault.Invalid},
		"webhook is down":  {err: status(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "a.b": Post "https://c.d.svc": no endpoints`), kind: fault.Unavailable, hint: "webhook a.b", retryable: true},
		"overloaded":       {err: tooMany, kind: fault.Unavailable, retryable: true},
		"no leader":        {err: status(500, metav1.StatusReasonInternalError, "etcdserver: no leader"), kind: fault.Unavailable, retryable: true},
		"bad gateway":      {err: status(502, "", "bad gateway"), kind: fault.Unavailable, retryable: true},
		"bad request":      {err: status(400, metav1.StatusReasonBadRequest, "bad"), kind: fault.Invalid},
		"refused to dial":  {err: &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, kind: fault.Unreachable, says: "10.0.0.1:6443: dial", retryable: true},
		"tunnel":           {err: &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api", Err: fault.Hinted(fault.Untrusted, "look at the key", "host key differs")}, kind: fault.Untrusted, says: "host key differs", hint: "look at the key"},
		"broken off":       {err: errors.New("http2: client connection lost"), kind: fault.Unreachable, retryable: true},
		"never answered":   {err: &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/api", Err: context.DeadlineExceeded}, kind: fault.Unreachable, says: "10.0.0.1:6443 gave no answer in time", retryable: true},
		"continue expired": {err: status(410, metav1.StatusReasonExpired, "The provided continue parameter is too old"), kind: fault.Unavailable, retryable: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := failure(t.Context(), "doing", test.err)
			if got := fault.KindOf(err); got != test.kind || got.Retryable() != test.retryable {
				t.Errorf("kind %s, want %s", got, test.kind)
			}
			if !strings.HasPrefix(err.Error(), "doing: ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("text %q, want %q", err, test.says)
			}
			if !strings.Contains(fault.HintOf(err), test.hint) {
				t.Errorf("hint %q, want %q", fault.HintOf(err), test.hint)
			}
		})
	}
	if d := fault.AfterOf(failure(t.Context(), "doing", tooMany)); d != 7*time.Second {
		t.Errorf("Retry-After became %v", d)
	}
	if err := failure(t.Context(), "doing", nil); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := fault.KindOf(failure(ctx, "doing", errors.New("broken off"))); got != fault.Cancelled {
		t.Errorf("kind %s after a cancellation", got)
	}
}
