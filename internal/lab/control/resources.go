package control

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The resources that the parts read and write.
var (
	namespacesAt = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	pods         = schema.GroupResource{Resource: "pods"}
	nodes        = schema.GroupResource{Resource: "nodes"}
	services     = schema.GroupResource{Resource: "services"}
	configMaps   = schema.GroupResource{Resource: "configmaps"}
	secrets      = schema.GroupResource{Resource: "secrets"}
	slicesOf     = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	deployments  = schema.GroupResource{Group: "apps", Resource: "deployments"}
	statefulSets = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	validating   = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}
	mutating     = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}

	issuers        = schema.GroupResource{Group: "cert-manager.io", Resource: "issuers"}
	clusterIssuers = schema.GroupResource{Group: "cert-manager.io", Resource: "clusterissuers"}
	certificates   = schema.GroupResource{Group: "cert-manager.io", Resource: "certificates"}

	clusters          = schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusters"}
	clusterClasses    = schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusterclasses"}
	deploymentsOf     = schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machinedeployments"}
	machines          = schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}
	controlPlanes     = schema.GroupResource{Group: "controlplane.cluster.x-k8s.io", Resource: "kubeadmcontrolplanes"}
	openStackClusters = schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "openstackclusters"}
	openStackMachines = schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "openstackmachines"}
	machineTemplates  = schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "openstackmachinetemplates"}
	clusterTemplates  = schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "openstackclustertemplates"}
	planeTemplates    = schema.GroupResource{Group: "controlplane.cluster.x-k8s.io", Resource: "kubeadmcontrolplanetemplates"}
	bootTemplates     = schema.GroupResource{Group: "bootstrap.cluster.x-k8s.io", Resource: "kubeadmconfigtemplates"}
	images            = schema.GroupResource{Group: "openstack.k-orc.cloud", Resource: "images"}

	applicationSets = schema.GroupResource{Group: "argoproj.io", Resource: "applicationsets"}
	projects        = schema.GroupResource{Group: "argoproj.io", Resource: "appprojects"}
	applications    = schema.GroupResource{Group: "argoproj.io", Resource: "applications"}
)

const clusterLabel = "cluster.x-k8s.io/cluster-name"

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
