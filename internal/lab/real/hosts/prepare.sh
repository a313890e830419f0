# Makes a fresh Debian root that of the lab's hosts. Runs inside it.
rm -f /etc/ssh/ssh_host_* /var/cache/apt/archives/*.deb /etc/machine-id /usr/sbin/policy-rc.d
: >/etc/machine-id
useradd -m -s /bin/bash debian
useradd -m -s /bin/bash guest
usermod -p '*' debian
usermod -p '*' guest
echo 'debian ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/debian
chmod 440 /etc/sudoers.d/debian
cat >/etc/ssh/sshd_config.d/lab.conf <<'END'
HostKey /etc/ssh/ssh_host_ed25519_key
HostCertificate /etc/ssh/ssh_host_ed25519_key-cert.pub
TrustedUserCAKeys /etc/ssh/user_ca.pub
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 200:30:400
MaxSessions 64
UseDNS no
END
cat >/usr/local/sbin/lab-sshd <<'END'
#!/bin/sh
# Keeps sshd running, as a service manager would.
mkdir -p /run/sshd
while :; do
	/usr/sbin/sshd -D -E /var/log/sshd.log
	sleep 0.2
done
END
chmod 755 /usr/local/sbin/lab-sshd
systemctl -q enable ssh.service
systemctl -q disable apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer
systemctl -q mask systemd-udevd.service systemd-networkd-wait-online.service getty.target console-getty.service systemd-logind.service

# Hosts reach no mirror: what tests install comes from a repository on each.
# That is a few of Debian's packages, and one of its own in two versions.
mkdir -p /srv/repo
cd /srv/repo
apt-get -q update
apt-get -q download jq libjq1 libonig5
for version in 1.0 1.1; do
	mkdir -p demo/DEBIAN demo/usr/bin demo/etc
	printf 'Package: lab-demo\nVersion: %s\nArchitecture: all\nMaintainer: lab <lab@example.org>\nDescription: a program that says its version\n' $version >demo/DEBIAN/control
	echo /etc/lab-demo.conf >demo/DEBIAN/conffiles
	echo "version = $version" >demo/etc/lab-demo.conf
	printf '#!/bin/sh\necho %s\n' $version >demo/usr/bin/lab-demo
	chmod 755 demo/usr/bin/lab-demo
	dpkg-deb -b demo lab-demo_${version}_all.deb
	rm -r demo
done
for deb in *.deb; do
	dpkg-deb -f "$deb"
	printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum <"$deb" | cut -d' ' -f1)"
done >Packages
apt-get clean
rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /etc/apt/sources.list.d/*
mkdir -p /var/lib/apt/lists/partial
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
