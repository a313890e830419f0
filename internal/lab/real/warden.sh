# Ends a lab whose owner has died: then the other end of standard input is
# closed. An owner that ends well writes a line. $1 is the lab's folder, and $2
# what to remove of it.
read -r _ && exit
cd "$1" || exit
for file in run/*.pid; do
	read -r pid started <"$file" || continue
	stat=$(cat "/proc/$pid/stat" 2>/dev/null) || continue
	# The name, in brackets, may hold anything.
	set -- "$1" "$2" ${stat##*) }
	[ "${22}" = "$started" ] && kill -s KILL -- "-$pid"
done
cd / && rm -rf "$2"
