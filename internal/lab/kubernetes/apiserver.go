package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// runAPIServer runs kube-apiserver with args on listener until ctx ends.
func runAPIServer(ctx context.Context, args []string, listener net.Listener) error {
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range s.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading kube-apiserver's flags: %w", err)
	}
	s.SecureServing.Listener = listener
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting kube-apiserver's features: %w", err)
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := s.Complete(ctx)
	if err != nil {
		return fmt.Errorf("completing kube-apiserver's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return fmt.Errorf("checking kube-apiserver's options: %w", utilerrors.NewAggregate(errs))
	}
	if err := apiserver.Run(ctx, completed); err != nil {
		return fmt.Errorf("running kube-apiserver: %w", err)
	}
	return nil
}

// awaitReady returns once the API server at address answers /readyz (which is open to
// everybody), or with what came on failed.
func awaitReady(ctx context.Context, address string, failed <-chan error) error {
	// The certificate isn't looked at: only the status of an open endpoint on loopback is asked.
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
