# First process of a guest kernel (user-mode Linux or qemu) that has the host's files as its root: runs one command.
# Two byte channels carry the command's stdout and stderr, and nothing but the command writes to them. A third is for control: the
# guest sends `ready` and `exit CODE`, and reads `signal NAME`; its end means that the host program has ended, and then the guest ends
# at once.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
run=$1

stdout= stderr= control=
modules= early_modules= is_bare=
. "$run/guest.env"
if [ -n "$modules" ]; then # before the mounts below, which hide a folder in /run
  [ -d /lib/modules ] || mkdir -p /lib/modules
  mount --bind "$modules" /lib/modules
fi
mount -t proc proc /proc 2>/dev/null
mount -t sysfs sys /sys 2>/dev/null
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/netns /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null

# reboot(2) with LINUX_REBOOT_CMD_POWER_OFF; Debian's base has no program for it without an init system.
power_off() { perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc, 0)'; }

# Loads the modules that the list beside them names, each after those that it needs: finit_module(2) from one process, and none of kmod.
load_all() {
  cd /lib/modules/*/ 2>/dev/null && [ -s modules.load ] && perl -e 'while (<>) {
    chomp; open my $file, "<", "$_.ko" or die "$_.ko: $!\n"; syscall(313, fileno $file, my $none = "", 0) == 0 or die "$_: $!\n"
  }' modules.load && cd / && return
  echo "guest.sh: the modules of the kernel could not be loaded from $modules"
  power_off
}

shopt -s extglob nullglob
# Removes the programs of iptables, ipset and nftables from this guest's view of the folders of PATH. nft goes to a folder in one of
# them: tests look with it, and the daemon does not find it. /run would not do: each test file has its own.
hide_firewall() {
  local folder names
  for folder in ${PATH//:/ }; do
    [ -L "$folder" ] && continue # /sbin is /usr/sbin
    names=("$folder"/@(iptables|ip6tables|arptables|ebtables|xtables|ipset|nft)!(-xml)) # iptables-xml knows no kernel
    [ ${#names[@]} -gt 0 ] || continue
    mkdir -p "/run/hidden$folder"/{files,work}
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=/run/hidden$folder/files,workdir=/run/hidden$folder/work" "$folder"
    if [ -e "$folder/nft" ]; then
      export KUBE_IPVS_OUT_OF_PATH=$folder/out-of-path
      mkdir "$folder/out-of-path" && mv "$folder/nft" "$folder/out-of-path/"
    fi
    rm -f "${names[@]}"
  done
}

if [ -z "$modules" ]; then :
elif [ -n "$early_modules" ]; then modprobe -a $early_modules 2>/dev/null
else load_all
fi
[ -z "$is_bare" ] || hide_firewall
for name in stdout stderr control; do # a virtio port is found by its name, a serial line is named outright
  port=${!name}
  case $port in virtio:*)
    for entry in /sys/class/virtio-ports/*; do
      [ "$(cat "$entry/name" 2>/dev/null)" = "${port#virtio:}" ] && printf -v "$name" '/dev/%s' "${entry##*/}"
    done ;;
  esac
done
for folder in "${live_folders[@]}"; do # the 9p root caches; folders that people edit meanwhile must not
  mkdir -p /run/live
  mountpoint -q /run/live || mount -t 9p -o trans=virtio,version=9p2000.L,cache=none hostroot /run/live
  mount --bind "/run/live$folder" "$folder"
done
# Node makes io_uring rings whatever UV_USE_IO_URING says, and user-mode Linux 7.2 panics when such a process forks. A kernel
# without the sysctl is older than 6.6 or has no io_uring. The console takes the message, and the host shows its end.
io_uring=/proc/sys/kernel/io_uring_disabled
if [ -e $io_uring ] && ! { echo 2 >$io_uring && [ "$(<$io_uring)" = 2 ]; }; then
  echo "guest.sh: io_uring cannot be switched off: $io_uring takes no 2"
  power_off
fi
# All network namespaces together may refuse that often; tests refuse many at a time. Newer kernels count by namespace.
echo 1000000 2>/dev/null >/proc/sys/net/ipv4/icmp_msgs_per_sec
echo 1000000 2>/dev/null >/proc/sys/net/ipv4/icmp_msgs_burst
# To one host the kernel says five times that there is no route, and then once a second.
echo 0 2>/dev/null >/proc/sys/net/ipv4/route/error_cost
# The neighbours of all network namespaces share two tables, and the kernel drops packets for those that do not fit.
for family in ipv4 ipv6; do
  for level in 1 2 3; do
    echo $((level * 16384)) 2>/dev/null >/proc/sys/net/$family/neigh/default/gc_thresh$level
  done
done
ip link set lo up
case $stdout in /dev/vport*) # no FIFO and no socket can be opened in a folder of the 9p root
  export TMPDIR=/dev/shm/tmp
  mkdir -m 1777 "$TMPDIR" ;;
esac

exec 7>"$stdout" 8>"$stderr" 9<>"$control"
[ -c "$stdout" ] && case $stdout in */ttyS*) stty raw -echo <&9; stty raw -echo -F "$stdout"; stty raw -echo -F "$stderr" ;; esac
echo ready >&9

mkfifo /run/stdout /run/stderr
cat </run/stdout >&7 9>&- & copy_stdout=$!
cat </run/stderr >&8 9>&- & copy_stderr=$!
setsid bash "$run/command.sh" </dev/null >/run/stdout 2>/run/stderr 7>&- 8>&- 9>&- & job=$!
(
  while read -r verb name <&9; do
    [ "$verb" = signal ] && kill -s "$name" -- "-$job" 2>/dev/null
  done
  power_off
) & listener=$!

wait "$job"
code=$?
kill -KILL -- "-$job" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do # something the command left running may hold its output open
  kill -0 $copy_stdout 2>/dev/null || kill -0 $copy_stderr 2>/dev/null || break
  sleep 0.1
done
case $stdout in */ttyS*) stty raw -F "$stdout"; stty raw -F "$stderr" ;; esac # stty waits until all is written
echo "exit $code" >&9
case $control in */ttyS*) stty raw -F "$control" ;; esac
kill $listener 2>/dev/null
sync
power_off
