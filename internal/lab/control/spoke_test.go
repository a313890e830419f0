package control_test

const identity = `
apiVersion: v1
kind: Secret
metadata: {name: spoke-cloud-config, namespace: default, labels: {clusterctl.cluster.x-k8s.io/move: "true"}}
stringData: {clouds.yaml: "clouds: {}"}
`

const spokeClass = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: OpenStackClusterTemplate
metadata: {name: network, namespace: default}
spec: {template: {spec: {identityRef: {name: spoke-cloud-config, cloudName: openstack}, managedSubnets: [{cidr: 10.6.0.0/24}], apiServerFixedIP: 10.6.0.5}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: OpenStackMachineTemplate
metadata: {name: plane, namespace: default}
spec: {template: {spec: {flavor: m1.small, image: {filter: {name: debian-13}}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: OpenStackMachineTemplate
metadata: {name: worker, namespace: default}
spec: {template: {spec: {flavor: m1.medium, image: {filter: {name: debian-13}}}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: worker, namespace: default}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {name: "{{ local_hostname }}"}}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: plane, namespace: default}
spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {apiServer: {certSANs: [localhost]}}}}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: spoke, namespace: default}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: OpenStackClusterTemplate, name: network}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: plane}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: OpenStackMachineTemplate, name: plane}}
  workers:
    machineDeployments:
    - class: worker
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: worker}}
      infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: OpenStackMachineTemplate, name: worker}}
`

const spokeCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: spoke, namespace: default}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  topology:
    classRef: {name: spoke}
    version: v1.37.2
    controlPlane: {replicas: 3}
    workers: {machineDeployments: [{class: worker, name: workers, replicas: 2, deletion: {order: Oldest}}]}
`
