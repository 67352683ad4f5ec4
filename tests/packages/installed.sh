# Runs inside of the container of systemd.sh: the life of the Debian package.
tree() { (find /etc /usr /var/lib -path /var/lib/dpkg -prune -o -path /var/lib/systemd -prune \
	-o -type f -print; cut -d: -f1 /etc/passwd) | grep -v -e __pycache__ -e '/etc/.*-$' | sort; }
# The gateway finds its backends after it has begun to listen.
ready() { until curl --silent --fail http://127.0.0.1:8430/ready >/dev/null; do
	systemctl is-active --quiet tidegate
	sleep 0.1
done; }
ask() { ready; curl --silent --show-error --fail --max-time 20 http://127.0.0.1:8430/v1/chat/completions \
	-d '{"model": "stand-in", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}'; }
# `set -e` does not end the script at a failed `! command`.
not() { if "$@"; then return 1; fi; }

trap 'journalctl --no-pager --output cat --unit engine --unit tidegate' EXIT
tree >/run/before
# A model server where the configuration of the package looks for one.
dpkg-deb --fsys-tarfile /packages/*.deb | tar -x --to-stdout ./usr/bin/tidegate >/run/engine
chmod 755 /run/engine
systemd-run --quiet --unit engine /run/engine engine --listen 127.0.0.1:8000
until (: </dev/tcp/127.0.0.1/8000) 2>/dev/null; do
	systemctl is-active --quiet engine
	sleep 0.1
done

dpkg --install /packages/*.deb
systemd-analyze verify --man=no tidegate.service
systemctl is-active tidegate
systemctl is-enabled tidegate
# Type=notify: the listener is open when `systemctl start` returns.
systemctl restart tidegate
curl --silent --fail http://127.0.0.1:8430/health
ask | grep '"usage"'
main=$(systemctl show --property MainPID --value tidegate)
stat --format 'user %U' "/proc/$main"
grep -e ^CapEff -e ^NoNewPrivs -e ^Seccomp: "/proc/$main/status"

# A reload takes the new file, and the process stays.
sed -i 's/^queue_ttl = .*/queue_ttl = "45s"/' /etc/tidegate/tidegate.toml
systemctl reload tidegate
until journalctl --unit tidegate | grep -q "the configuration was reloaded"; do sleep 0.1; done
[ "$main" = "$(systemctl show --property MainPID --value tidegate)" ]

# A batch folder in the only place where the service may write.
printf '[batch]\nfolder = "/var/lib/tidegate/batch"\n' >>/etc/tidegate/tidegate.toml
systemctl restart tidegate
ask >/dev/null
[ -d /var/lib/tidegate/batch ]

# An upgrade keeps the changed configuration and serves again.
before=$(systemctl show --property MainPID --value tidegate)
dpkg --install --force-confold /packages/*.deb
[ "$before" != "$(systemctl show --property MainPID --value tidegate)" ]
grep 'queue_ttl = "45s"' /etc/tidegate/tidegate.toml
ask >/dev/null
# A service that was stopped stays so.
systemctl stop tidegate
dpkg --install --force-confold /packages/*.deb
not systemctl is-active tidegate
systemctl start tidegate

dpkg --remove tidegate
not systemctl is-active --quiet tidegate
[ -f /etc/tidegate/tidegate.toml ] && [ -d /var/lib/tidegate/batch ] && [ ! -e /usr/bin/tidegate ]
# Installed again, it serves with the configuration that was kept.
dpkg --install --force-confold /packages/*.deb
systemctl is-enabled tidegate
ask >/dev/null
# A removal does not forget that the administrator disabled the service.
systemctl disable --now tidegate
dpkg --remove tidegate
dpkg --install --force-confold /packages/*.deb
not systemctl is-enabled tidegate
not systemctl is-active tidegate
# The upgrade after it is an upgrade.
systemctl enable tidegate
dpkg --install --force-confold /packages/*.deb
not systemctl is-active tidegate

dpkg --purge tidegate
[ ! -L /etc/systemd/system/multi-user.target.wants/tidegate.service ]
tree >/run/after
diff /run/before /run/after
echo 'all of it'
