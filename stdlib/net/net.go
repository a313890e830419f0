// Package net is the module for IP addresses and networks.
package net

import (
	"context"
	"math/big"
	"net/netip"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name:  "net",
		Doc:   "IP addresses and networks, IPv4 and IPv6, as texts: nothing is looked up.",
		Funcs: []builtin.Func{cidrHost(), cidrSubnet(), contains(), overlaps(), parse()},
	})
}

func network(fn, s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, fault.Hinted(fault.Invalid, "write it as 10.20.0.0/24", "net.%s: %q is no network", fn, s)
	}
	return p, nil
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// address returns the address with the number n, of the size of like.
func address(n *big.Int, like netip.Addr) netip.Addr {
	raw := n.FillBytes(make([]byte, like.BitLen()/8))
	a, _ := netip.AddrFromSlice(raw) // 4 or 16 bytes are always an address
	return a
}

func size(p netip.Prefix) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
}

type hostArgs struct {
	CIDR string `star:"cidr,required" doc:"Network, such as 10.20.0.0/24."`
	Num  int64  `star:"num,required" doc:"Number of the address in it, from 0; below 0 from the end, -1 being the last."`
}

func cidrHost() builtin.Func {
	return builtin.Of(builtin.Spec[any, hostArgs]{
		Name: "cidr_host", Doc: "Get an address of a network by its number.", Returns: "str",
		Example: `gateway = net.cidr_host("10.20.0.0/24", 1)`, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a hostArgs) (any, error) {
			p, err := network("cidr_host", a.CIDR)
			if err != nil {
				return nil, err
			}
			n, all := big.NewInt(a.Num), size(p)
			if n.Sign() < 0 {
				n.Add(n, all)
			}
			if n.Sign() < 0 || n.Cmp(all) >= 0 {
				return nil, fault.New(fault.Invalid, "net.cidr_host: %s has %s addresses, and none with the number %d", a.CIDR, all, a.Num)
			}
			base := p.Masked().Addr()
			return address(n.Add(n, number(base)), base).String(), nil
		},
	})
}

type subnetArgs struct {
	CIDR    string `star:"cidr,required" doc:"Network, such as 10.20.0.0/16."`
	NewBits int    `star:"newbits,required" doc:"How many bits longer the prefix of the part is."`
	Num     int64  `star:"num,required" doc:"Number of the part, from 0."`
}

func cidrSubnet() builtin.Func {
	return builtin.Of(builtin.Spec[any, subnetArgs]{
		Name: "cidr_subnet", Doc: "Divide a network into equal parts, and get one of them.", Returns: "str",
		Example: `pods = net.cidr_subnet("10.20.0.0/16", 8, 3)`, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a subnetArgs) (any, error) {
			p, err := network("cidr_subnet", a.CIDR)
			if err != nil {
				return nil, err
			}
			base := p.Masked().Addr()
			bits := p.Bits() + a.NewBits
			if a.NewBits < 0 || bits > base.BitLen() {
				return nil, fault.New(fault.Invalid, "net.cidr_subnet: a prefix of /%d can't become %d bits longer", p.Bits(), a.NewBits)
			}
			n := big.NewInt(a.Num)
			if n.Sign() < 0 || n.BitLen() > a.NewBits {
				return nil, fault.New(fault.Invalid, "net.cidr_subnet: %s has %s parts of /%d, and none with the number %d",
					a.CIDR, new(big.Int).Lsh(big.NewInt(1), uint(a.NewBits)), bits, a.Num)
			}
			n.Lsh(n, uint(base.BitLen()-bits))
			return netip.PrefixFrom(address(n.Add(n, number(base)), base), bits).String(), nil
		},
	})
}

type containsArgs struct {
	CIDR  string `star:"cidr,required" doc:"Network."`
	Other string `star:"other,required" doc:"Address, or network."`
}

func contains() builtin.Func {
	return builtin.Of(builtin.Spec[any, containsArgs]{
		Name: "contains", Doc: "Tell whether an address, or all of another network, is in a network.", Returns: "bool",
		Example: `inside = net.contains("10.20.0.0/24", "10.20.0.5")`, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a containsArgs) (any, error) {
			p, err := network("contains", a.CIDR)
			if err != nil {
				return nil, err
			}
			if strings.Contains(a.Other, "/") {
				o, err := network("contains", a.Other)
				return err == nil && o.Bits() >= p.Bits() && p.Contains(o.Masked().Addr()), err
			}
			o, err := netip.ParseAddr(a.Other)
			if err != nil {
				return nil, fault.New(fault.Invalid, "net.contains: %q is neither an address nor a network", a.Other)
			}
			return p.Contains(o), nil
		},
	})
}

type overlapsArgs struct {
	CIDR  string `star:"cidr,required" doc:"Network."`
	Other string `star:"other,required" doc:"Network."`
}

func overlaps() builtin.Func {
	return builtin.Of(builtin.Spec[any, overlapsArgs]{
		Name: "overlaps", Doc: "Tell whether two networks have an address in common.", Returns: "bool",
		Example: `clash = net.overlaps("10.20.0.0/16", "10.20.3.0/24")`, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a overlapsArgs) (any, error) {
			p, err := network("overlaps", a.CIDR)
			if err != nil {
				return nil, err
			}
			o, err := network("overlaps", a.Other)
			return err == nil && p.Overlaps(o), err
		},
	})
}

type parseArgs struct {
	S string `star:"s,required" doc:"Network, or address with a prefix length, such as 10.20.0.5/24; or an address alone."`
}

func parse() builtin.Func {
	return builtin.Of(builtin.Spec[any, parseArgs]{
		Name: "parse",
		Doc: "Take a network or an address apart.\n\nThe result has `address` (as given, in its usual form), `network` (with its prefix length), `prefix` (its length), " +
			"`netmask`, `first` and `last` (the lowest and highest address of the network), `size` (how many there are) and `version` (4 or 6).",
		Returns: "net.network", Example: `mask = net.parse("10.20.0.0/24").netmask`, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
		Run: func(_ context.Context, _ any, a parseArgs) (any, error) {
			p, err := netip.ParsePrefix(a.S)
			if err != nil {
				addr, aerr := netip.ParseAddr(a.S)
				if aerr != nil || addr.Zone() != "" {
					return nil, fault.New(fault.Invalid, "net.parse: %q is neither a network nor an address", a.S)
				}
				p = netip.PrefixFrom(addr, addr.BitLen())
			}
			base := p.Masked().Addr()
			n := size(p)
			last := new(big.Int).Add(number(base), n)
			last.Sub(last, big.NewInt(1))
			all := new(big.Int).Lsh(big.NewInt(1), uint(base.BitLen()))
			version := 6
			if base.Is4() {
				version = 4
			}
			return effect.NewObject("net.network", map[string]any{"address": p.Addr().String(), "network": p.Masked().String(), "prefix": p.Bits(),
				"netmask": address(all.Sub(all, n), base).String(), "first": base.String(), "last": address(last, base).String(), "size": n, "version": version}), nil
		},
	})
}
