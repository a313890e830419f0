package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Refs is what a repository's names point to.
type Refs struct {
	Branches map[string]Hash
	Tags     map[string]Hash // the commit, also for an annotated tag
	Default  string          // the branch that HEAD names; empty if the server doesn't say
}

// Refs asks for the repository's branches and tags. An empty repository has
// none. Errors: NotFound, Denied, Untrusted, Unreachable, Unavailable.
func (r *Remote) Refs(ctx context.Context) (Refs, error) {
	var refs Refs
	err := r.talk(ctx, uploadPack, func(x exchange, adv *packp.AdvRefs) error {
		refs = readRefs(adv)
		// A flush says that nothing is wanted. The references are there in any
		// case.
		if _, ok := x.(*sshExchange); ok {
			_, _ = x.send(bytes.NewReader(pktline.FlushPkt))
		}
		return nil
	})
	return refs, fault.Wrap("reading the references of", r.Name(), err)
}

func readRefs(adv *packp.AdvRefs) Refs {
	refs := Refs{Branches: make(map[string]Hash), Tags: make(map[string]Hash)}
	for name, h := range adv.References {
		if b, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			refs.Branches[b] = h
		} else if t, ok := strings.CutPrefix(name, "refs/tags/"); ok {
			refs.Tags[t] = h
			if peeled, ok := adv.Peeled[name]; ok {
				refs.Tags[t] = peeled
			}
		}
	}
	for _, link := range adv.Capabilities.Get(capability.SymRef) {
		if b, ok := strings.CutPrefix(link, "HEAD:refs/heads/"); ok {
			refs.Default = b
		}
	}
	return refs
}

// talk has one conversation with a service of the server.
func (r *Remote) talk(ctx context.Context, service string, f func(exchange, *packp.AdvRefs) error) error {
	x, err := r.transport.open(ctx, service)
	if err != nil {
		return err
	}
	defer x.close()
	adv := packp.NewAdvRefs()
	if err := adv.Decode(x.references()); err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		return x.explain(decodeError(err))
	}
	if err := f(x, adv); err != nil {
		return x.explain(err)
	}
	return nil
}

// decodeError finds what the server says in place of an answer.
func decodeError(err error) error {
	var line *pktline.ErrorLine
	if errors.As(err, &line) {
		return refusal(line.Text, nil)
	}
	var odd *packp.ErrUnexpectedData
	if errors.As(err, &odd) {
		return fault.New(fault.Failed, "the server's answer isn't Git's: %q", odd.Data)
	}
	return err
}

// Fetch gets the commit want with its files into o. With history, all commits
// before it come too.
func (r *Remote) Fetch(ctx context.Context, o *Objects, want Hash, history bool) error {
	if o.has(want, history) {
		return nil
	}
	err := r.talk(ctx, uploadPack, func(x exchange, adv *packp.AdvRefs) error {
		req := packp.NewUploadPackRequest()
		req.Wants = []Hash{want}
		caps := adv.Capabilities
		set(req.Capabilities, caps, capability.OFSDelta, capability.Sideband64k, capability.NoProgress)
		if caps.Supports(capability.Agent) {
			_ = req.Capabilities.Set(capability.Agent, "git/gsrun") // only fails without an argument
		}
		if !history && caps.Supports(capability.Shallow) {
			_ = req.Capabilities.Set(capability.Shallow)
			req.Depth = packp.DepthCommits(1)
		}
		var request bytes.Buffer
		if err := req.UploadRequest.Encode(&request); err != nil {
			return err
		}
		if err := pktline.NewEncoder(&request).EncodeString("done\n"); err != nil {
			return err
		}
		answer, err := x.send(&request)
		if err != nil {
			return err
		}
		resp := packp.NewUploadPackResponse(req)
		if err := resp.Decode(io.NopCloser(answer)); err != nil {
			return decodeError(err)
		}
		var pack io.Reader = resp
		if req.Capabilities.Supports(capability.Sideband64k) {
			pack = sideband.NewDemuxer(sideband.Sideband64k, resp)
		}
		if err := packfile.UpdateObjectStorage(o.store, pack); err != nil {
			return fmt.Errorf("reading the pack: %w", err)
		}
		o.complete = o.complete || req.Depth.IsZero()
		return nil
	})
	return fault.Wrap("fetching "+want.String()+" from", r.Name(), err)
}

func set(want, offered *capability.List, caps ...capability.Capability) {
	for _, c := range caps {
		if offered.Supports(c) {
			_ = want.Set(c) // only fails for capabilities with arguments
		}
	}
}

// Push makes branch point to the commit to, whose new objects are given, if it
// still points to from (zero: if it isn't there). An error of kind Conflict
// says that it doesn't: somebody else was faster. It never forces.
func (r *Remote) Push(ctx context.Context, o *Objects, branch string, from, to Hash, objects []Hash) error {
	err := r.talk(ctx, receivePack, func(x exchange, adv *packp.AdvRefs) error {
		name := plumbing.NewBranchReferenceName(branch)
		if have := adv.References[name.String()]; have != from {
			return lostRace(branch, have)
		}
		req := packp.NewReferenceUpdateRequest()
		caps := adv.Capabilities
		if !caps.Supports(capability.ReportStatus) {
			return fault.New(fault.Failed, "the server can't report whether a push succeeded")
		}
		set(req.Capabilities, caps, capability.ReportStatus, capability.Sideband64k)
		if caps.Supports(capability.Agent) {
			_ = req.Capabilities.Set(capability.Agent, "git/gsrun") // only fails without an argument
		}
		req.Commands = []*packp.Command{{Name: name, Old: from, New: to}}
		var request bytes.Buffer
		if err := req.Encode(&request); err != nil {
			return err
		}
		if _, err := packfile.NewEncoder(&request, o.store, false).Encode(objects, 0); err != nil {
			return fmt.Errorf("packing: %w", err)
		}
		answer, err := x.send(&request)
		if err != nil {
			return err
		}
		var said limited
		if req.Capabilities.Supports(capability.Sideband64k) {
			demux := sideband.NewDemuxer(sideband.Sideband64k, answer)
			demux.Progress = &said
			answer = demux
		}
		report := packp.NewReportStatus()
		if err := report.Decode(answer); err != nil {
			if text := said.String(); text != "" {
				return refusal(text, err)
			}
			return err
		}
		return verdict(report, said.String())
	})
	return fault.Wrap("pushing to "+branch+" of", r.Name(), err)
}

func lostRace(branch string, have Hash) error {
	at := have.String()
	if have.IsZero() {
		at = "nothing"
	}
	return fault.New(fault.Conflict, "%s points to %s by now: somebody else pushed first", branch, at)
}

// verdict reads the server's report on a push.
func verdict(report *packp.ReportStatus, said string) error {
	if report.UnpackStatus != "ok" {
		return refusal("unpacking: "+report.UnpackStatus+" "+said, nil)
	}
	if len(report.CommandStatuses) == 0 {
		return fault.New(fault.Failed, "the server doesn't say whether it took the push")
	}
	for _, c := range report.CommandStatuses {
		if c.Status != "ok" {
			return refusal(strings.TrimSpace(c.Status+". "+said), nil)
		}
	}
	return nil
}
