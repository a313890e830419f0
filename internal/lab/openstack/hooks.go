package openstack

import "sync"

// ServerEvent says what has happened to a server's machine.
type ServerEvent string

// The events that [Config.OnServer] gets.
const (
	ServerActive   ServerEvent = "active"   // booted for the first time
	ServerStopped  ServerEvent = "stopped"  // powered off
	ServerStarted  ServerEvent = "started"  // powered on again
	ServerRebooted ServerEvent = "rebooted" // booted again from the same disk
	ServerRebuilt  ServerEvent = "rebuilt"  // booted from a new disk
	ServerDeleted  ServerEvent = "deleted"  // gone
)

// ServerInfo describes a server to the simulator of its machine.
type ServerInfo struct {
	ID        string
	Name      string
	ProjectID string
	Addresses []Address
	UserData  []byte // as cloud-init gets it, base64 removed
	KeyName   string
	PublicKey string // authorized_keys form, "" without key
	Image     string // the image's name
	Flavor    string // the flavor's name
	Metadata  map[string]string
}

// Address is one fixed address of a server.
type Address struct {
	Network    string // the network's name
	NetworkID  string
	SubnetID   string
	PortID     string
	MAC        string
	Fixed      string
	PrefixBits int    // of the subnet
	Gateway    string // of the subnet, "" without one
	Floating   string // the floating address that leads here, "" without one
}

// FloatingIPEvent says what has happened to a floating IP.
type FloatingIPEvent string

// The events that [Config.OnFloatingIP] gets.
const (
	FloatingIPAssociated    FloatingIPEvent = "associated"
	FloatingIPDisassociated FloatingIPEvent = "disassociated"
)

// FloatingIPInfo describes a floating IP and where it leads (or led) to.
type FloatingIPInfo struct {
	ID       string
	Address  string
	Fixed    string
	PortID   string
	ServerID string // "" while no server has the port
}

// notices calls hooks one after the other, in the order in which things happened.
type notices struct {
	mu     sync.Mutex
	queue  []notice
	latest chan struct{}
	wake   chan struct{}
	end    chan struct{}
	done   chan struct{}
}

type notice struct {
	call     func()
	returned chan struct{}
}

func (n *notices) start() {
	n.latest = make(chan struct{})
	close(n.latest)
	n.wake = make(chan struct{}, 1)
	n.end = make(chan struct{})
	n.done = make(chan struct{})
	go n.loop()
}

func (n *notices) stop() {
	close(n.end)
	<-n.done
}

func (n *notices) loop() {
	defer close(n.done)
	for {
		select {
		case <-n.wake:
		case <-n.end:
			n.drain()
			return
		}
		n.drain()
	}
}

func (n *notices) drain() {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 {
			n.mu.Unlock()
			return
		}
		next := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		next.call()
		close(next.returned)
	}
}

func (n *notices) add(call func()) {
	n.mu.Lock()
	returned := make(chan struct{})
	n.queue = append(n.queue, notice{call, returned})
	n.latest = returned
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// last is closed once all that was added so far has been called.
func (n *notices) last() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latest
}

// Server describes a server as it is now; false if there is none with that id.
func (c *Cloud) Server(id string) (ServerInfo, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.compute.servers[id]
	if s == nil {
		return ServerInfo{}, false
	}
	return c.serverInfo(s), true
}

func (c *Cloud) tellServer(e ServerEvent, s *server) {
	if c.cfg.OnServer == nil {
		return
	}
	info := c.serverInfo(s)
	c.notices.add(func() { c.cfg.OnServer(e, info) })
}

func (c *Cloud) tellFloatingIP(e FloatingIPEvent, info FloatingIPInfo) {
	if c.cfg.OnFloatingIP == nil {
		return
	}
	c.notices.add(func() { c.cfg.OnFloatingIP(e, info) })
}
