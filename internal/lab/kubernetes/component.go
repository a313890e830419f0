package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// runComponent runs the component of that name as upstream's program of the same name does, with
// this program's arguments, and returns its exit code; ok is false where there is no such
// component. So links to this program can stand in for the folder of components that
// KUBEBUILDER_ASSETS names.
func runComponent(name string) (code int, ok bool) {
	switch name {
	case "etcd":
		etcdmain.Main(os.Args) // it exits by itself where it fails
		return 0, true
	case "kube-apiserver":
		return cli.Run(apiserver.NewAPIServerCommand()), true
	case "kube-controller-manager":
		return cli.Run(manager.NewControllerManagerCommand()), true
	}
	return 0, false
}
