package hosts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Quality is that of a connection.
type Quality struct {
	Delay time.Duration // of each frame, each way
	Loss  int           // percent of the frames, each way
}

// Degrade makes the connection of a host's n-th interface slow and lossy, until
// what it returns is called. The kernel of the machine may not be able to do
// so by itself: frames pass through this process.
func (h *Host) Degrade(n int, q Quality) (repair func() error, err error) {
	link, err := netlink.LinkByName(h.wire(n))
	if err != nil {
		return nil, err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: link.Attrs().MasterIndex}}
	// The kernel leaves checksums and segments to hardware that isn't there.
	eth := fmt.Sprintf("eth%d", n)
	if err := errors.Join(offload(h.wire(n)), within(h.ns, func() error { return offload(eth) })); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("d%d-eth%d", h.id, n)
	tap, err := openTap(name)
	if err != nil {
		return nil, err
	}
	raw, err := openRaw(link.Attrs().Index)
	if err != nil {
		return nil, errors.Join(err, tap.Close())
	}
	d := &detour{tap: tap, raw: raw, q: q}
	tapLink, err := netlink.LinkByName(name)
	if err == nil {
		err = errors.Join(netlink.LinkSetNoMaster(link), netlink.LinkSetMaster(tapLink, bridge), netlink.SetPromiscOn(link), netlink.LinkSetUp(tapLink))
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.work.Go(func() { d.carry(tap, raw) })
	d.work.Go(func() { d.carry(raw, tap) })
	return func() error {
		return errors.Join(d.close(), netlink.SetPromiscOff(link), netlink.LinkSetMaster(link, bridge))
	}, nil
}

// A detour carries frames between a device on the bridge and the host's wire.
type detour struct {
	tap, raw *os.File
	q        Quality
	work     sync.WaitGroup
}

func (d *detour) close() error {
	err := errors.Join(d.tap.Close(), d.raw.Close())
	d.work.Wait()
	return err
}

const maxFrame = 65536

// carry takes frames from one side to the other, late, until either is closed.
func (d *detour) carry(from, to *os.File) {
	type frame struct {
		due  time.Time
		data []byte
	}
	queue := make(chan frame, 4096)
	d.work.Go(func() {
		for f := range queue {
			time.Sleep(time.Until(f.due))
			_, _ = to.Write(f.data) // what can't be sent is lost, as on a wire
		}
	})
	defer close(queue)
	buf := make([]byte, maxFrame)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if rand.IntN(100) < d.q.Loss {
			continue
		}
		select {
		case queue <- frame{time.Now().Add(d.q.Delay), append([]byte(nil), buf[:n]...)}:
		default: // the wire is full
		}
	}
}

func openTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("making a tap device: %w", err)
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a tap device: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openRaw reads the frames that come out of an interface, and sends into it.
func openRaw(index int) (*os.File, error) {
	all := uint16(unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8) // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return nil, fmt.Errorf("reading frames: %w", err)
	}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
		// Not those that this socket has sent itself.
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading frames: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "frames"), nil
}

// ethtoolValue is the kernel's struct ethtool_value.
type ethtoolValue struct{ cmd, data uint32 }

// offload switches off what an interface leaves to its hardware: checksums of
// what it sends, and segments of both directions. It works on the calling
// thread's network.
func offload(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, cmd := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_STXCSUM, unix.ETHTOOL_SGSO, unix.ETHTOOL_SGRO} {
		value := ethtoolValue{cmd: cmd}
		req := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&value)}
		copy(req.name[:], name)
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); e != 0 {
			return fmt.Errorf("switching off what %s leaves to its hardware: %w", name, e)
		}
	}
	return nil
}
