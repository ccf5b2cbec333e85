//! Ordinary work goes on within a sandbox.

use crate::support::house::{House, WORKSPACE_WRITE};

pub fn git_reads_its_repository(house: &House) {
    for mode in house.modes() {
        let text = house.run(mode, "git status --short file; git diff; git log --oneline | wc -l").success();
        assert_eq!(text, "1\n", "in {mode}");
    }
    let text = house
        .run(WORKSPACE_WRITE, "echo more >> file; git status --short file; git diff --stat file | tail -1")
        .success();
    assert!(text.starts_with(" M file\n 1 file changed"), "{text}");
}

pub fn shells_and_temporary_files_work(house: &House) {
    let script = r#"
        set -e
        place=$(mktemp); echo a > "$place"; rm "$place"
        place=$(mktemp -d); rmdir "$place"
        read -r line <<< here; test "$line" = here
        cat <<-end | grep -q document
		document
		end
        diff <(echo a) <(echo a)
        echo x > /dev/null; head -c 4 /dev/urandom | wc -c; ls / > /dev/null; id -un > /dev/null || true
        seq 1 1000 | xargs -P 4 -n 100 echo | wc -w
    "#;
    assert_eq!(house.run(WORKSPACE_WRITE, script).success(), "4\n1000\n");
}

pub fn c_programs_are_built_and_run(house: &House) {
    let script = r#"
        printf '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n' > main.c
        cc -o main main.c && ./main
    "#;
    assert_eq!(house.run(WORKSPACE_WRITE, script).success(), "built\n");
}

const PYTHON: &str = r#"
import asyncio, multiprocessing, os, pty, socket, tempfile, threading

async def serve():
    async def answer(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"asyncio\n")
    print((await reader.readline()).decode().strip())
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=asyncio.subprocess.PIPE)
    print((await process.communicate())[0].decode().strip())

def square(number):
    return number * number

if __name__ == "__main__":
    asyncio.run(serve())
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, [1, 2, 3]))
    one, other = socket.socketpair()
    one.sendall(b"pair"); print(other.recv(4).decode())
    main, terminal = pty.openpty()
    os.write(terminal, b"pty\n"); print(os.read(main, 5).decode().strip())
    thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
    with tempfile.NamedTemporaryFile() as file: print(os.path.exists(file.name))
"#;

pub fn python_works(house: &House) {
    std::fs::write(house.at("program.py"), PYTHON).unwrap();
    let text = house.run(WORKSPACE_WRITE, "python3 ../program.py").success();
    assert_eq!(text, "asyncio\nchild\n[1, 4, 9]\npair\npty\nthread\nTrue\n");
}

const NODE: &str = r#"
const http = require("http"), child = require("child_process");
const server = http.createServer((request, response) => response.end("served"));
server.listen(0, "127.0.0.1", () => http.get({ port: server.address().port, host: "127.0.0.1" }, (response) => {
    response.on("data", (data) => console.log(String(data)));
    response.on("end", () => { server.close(); console.log(child.execSync("echo child").toString().trim()); });
}));
"#;

/// Where there is a Node.
pub fn node_serves_itself(house: &House) {
    if house.host("command -v node").code != 0 {
        eprintln!("node is not installed: not tried");
        return;
    }
    std::fs::write(house.at("program.js"), NODE).unwrap();
    assert_eq!(house.run(WORKSPACE_WRITE, "node ../program.js").success(), "served\nchild\n");
}
