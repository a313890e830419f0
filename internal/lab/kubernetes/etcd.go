package main

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts etcd on two unix sockets in the working directory, and returns once it serves.
func startEtcd(ctx context.Context) (*embed.Etcd, error) {
	client := url.URL{Scheme: "unix", Host: "etcd-client"}
	peer := url.URL{Scheme: "unix", Host: "etcd-peer"}
	c := embed.NewConfig()
	c.Dir = "etcd"
	// The lab's data is thrown away with its folder: a power cut needn't be survived.
	c.UnsafeNoFsync = true
	c.LogLevel = "error"
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		e.Close()
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-ctx.Done():
		e.Close()
		return nil, fmt.Errorf("starting etcd: %w", context.Cause(ctx))
	}
}
