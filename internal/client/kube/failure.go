package kube

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// failure returns err, which a request under ctx ended with, as an error of a
// kind that says what to do about it. nil stays nil.
func failure(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ended := fault.FromContext(ctx); ended != nil {
		return &fault.Error{Op: op, Kind: fault.KindOf(ended), Err: ended}
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		e := refusal(status.Status())
		e.Op = op
		return e
	}
	return broken(op, err)
}

// broken is the failure of a request that got no answer.
func broken(op string, err error) error {
	var ours *fault.Error
	if errors.As(err, &ours) {
		return &fault.Error{Op: op, Kind: ours.Kind, Hint: ours.Hint, After: ours.After, Err: err}
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return &fault.Error{Op: op, Kind: fault.Untrusted, Err: err,
			Hint: "the kubeconfig's certificate authority didn't sign this server's certificate for this address"}
	}
	var web *url.Error
	if errors.As(err, &web) {
		if web.Timeout() {
			return &fault.Error{Op: op, Kind: fault.Unreachable, Err: fmt.Errorf("%s gave no answer in time: %w", hostOf(web.URL), web.Err)}
		}
		return &fault.Error{Op: op, Kind: fault.Unreachable, Err: fmt.Errorf("%s: %w", hostOf(web.URL), web.Err)}
	}
	return &fault.Error{Op: op, Kind: fault.Unreachable, Err: err}
}

func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

var (
	webhookCall    = regexp.MustCompile(`failed calling webhook "([^"]+)"`)
	webhookRefusal = regexp.MustCompile(`(?s)admission webhook "[^"]+" denied the request|^ValidatingAdmissionPolicy .* denied request`)
	rightLacking   = regexp.MustCompile(`[Uu]ser "[^"]*" cannot `)
)

// refusal is the failure of a request that the API server refused.
func refusal(s metav1.Status) *fault.Error {
	e := fault.New(fault.Failed, "%s", strings.TrimSpace(s.Message))
	if s.Details != nil {
		e.After = time.Duration(s.Details.RetryAfterSeconds) * time.Second
	}
	switch s.Reason {
	case metav1.StatusReasonNotFound:
		e.Kind = fault.NotFound
		if s.Details == nil || s.Details.Name == "" {
			// The path isn't there though discovery says so: a CRD that was just
			// made isn't served by every API server at the same instant.
			e.Kind = fault.Unavailable
		}
	case metav1.StatusReasonAlreadyExists:
		e.Kind = fault.Exists
	case metav1.StatusReasonConflict:
		if owned := managed(s); owned != nil {
			return owned
		}
		e.Kind = fault.Conflict
	case metav1.StatusReasonUnauthorized:
		e.Kind, e.Hint = fault.Denied, "the API server doesn't accept the kubeconfig's credentials; they may have expired"
	case metav1.StatusReasonForbidden:
		forbidden(s, e)
	case metav1.StatusReasonInvalid:
		invalid(s, e)
	case metav1.StatusReasonBadRequest, metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable,
		metav1.StatusReasonUnsupportedMediaType, metav1.StatusReasonRequestEntityTooLarge:
		e.Kind = fault.Invalid
	case metav1.StatusReasonTooManyRequests, metav1.StatusReasonServerTimeout, metav1.StatusReasonTimeout,
		metav1.StatusReasonServiceUnavailable, metav1.StatusReasonInternalError,
		metav1.StatusReasonExpired, metav1.StatusReasonGone:
		e.Kind = fault.Unavailable
	default:
		switch {
		case s.Code >= 500 || s.Code == 429:
			e.Kind = fault.Unavailable
		case s.Code == 403:
			forbidden(s, e)
		case s.Code >= 400:
			e.Kind = fault.Invalid
		}
	}
	if m := webhookCall.FindStringSubmatch(s.Message); m != nil {
		e.Kind, e.Hint = fault.Unavailable, fmt.Sprintf("the webhook %s doesn't answer yet: wait for the Deployment behind it", m[1])
	}
	// An apply that doesn't fit the schema is answered as if the server had failed.
	if webhookRefusal.MatchString(s.Message) || strings.Contains(s.Message, "failed to create typed patch object") {
		e.Kind = fault.Invalid
	}
	return e
}

func forbidden(s metav1.Status, e *fault.Error) {
	e.Kind = fault.Denied
	switch {
	case hasCause(s, "NamespaceTerminating"):
		e.Kind, e.Hint = fault.Conflict, "the namespace is being deleted"
	case strings.Contains(s.Message, "exceeded quota"):
		e.Kind, e.Hint = fault.Quota, "raise the namespace's ResourceQuota, or free something"
	case rightLacking.MatchString(s.Message):
		e.Hint = "give the kubeconfig's user a role that allows it"
	}
}

// LacksRight reports whether err says that the user may not do this at all.
func LacksRight(err error) bool {
	return fault.KindOf(err) == fault.Denied && rightLacking.MatchString(err.Error())
}

func hasCause(s metav1.Status, cause metav1.CauseType) bool {
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Type == cause {
				return true
			}
		}
	}
	return false
}

// invalid names the fields of an object that fails validation.
func invalid(s metav1.Status, e *fault.Error) {
	e.Kind = fault.Invalid
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return
	}
	var fields []string
	fixed := false
	for _, c := range s.Details.Causes {
		text := c.Message
		if c.Field != "" && c.Field != "<nil>" {
			text = c.Field + ": " + text
		}
		fields = append(fields, text)
		fixed = fixed || strings.Contains(c.Message, "immutable") || strings.Contains(c.Message, "updates to ")
	}
	e.Err = fmt.Errorf("the API server refuses it: %s", strings.Join(fields, "; "))
	if fixed {
		e.Hint = "the field can't be changed: delete the object first, or keep the value"
	}
}

// managed returns the failure of an apply whose fields somebody else manages,
// or nil if s is another conflict. It doesn't pass by itself, so it isn't of
// kind Conflict.
func managed(s metav1.Status) *fault.Error {
	if s.Details == nil {
		return nil
	}
	var fields []string
	for _, c := range s.Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		fields = append(fields, strings.TrimPrefix(c.Field, ".")+" ("+c.Message+")")
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.Hinted(fault.Exists, "leave the fields out, or take them over with force = True",
		"another manager has set %s", strings.Join(fields, ", "))
}
