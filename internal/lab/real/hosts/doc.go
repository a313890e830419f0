// Package hosts runs real Linux hosts on this machine: sshd, nftables,
// WireGuard and, where it is asked for, systemd, each host in namespaces of its
// own over one Debian root. The process that makes them sits in a network
// namespace too, so nothing that a lab sends leaves the machine, and an address
// that a lab hands out is the lab's.
//
// Isolate starts a program in such a namespace, and package hoststest does so
// with tests. When it ends, however it ends, the kernel ends the hosts.
//
// It needs root, and Debian's debootstrap the first time, whose root is kept in
// the cache.
package hosts
