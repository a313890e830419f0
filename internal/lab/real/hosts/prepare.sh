# Makes a fresh Debian root that of the lab's hosts. Runs inside it.
rm -f /etc/ssh/ssh_host_* /var/cache/apt/archives/*.deb /etc/machine-id /usr/sbin/policy-rc.d
: >/etc/machine-id
useradd -m -s /bin/bash ops
useradd -m -s /bin/bash guest
usermod -p '*' ops
usermod -p '*' guest
echo 'ops ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/ops
chmod 440 /etc/sudoers.d/ops
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
apt-get clean
rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/*
mkdir -p /var/lib/apt/lists/partial
