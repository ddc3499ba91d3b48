// Engines and daemons that the tests start real things with, where the machine has them: an image made of this
// machine's own BusyBox, and a server of ssh on a free port.
import type * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { createServer } from "node:net"
import { tmpdir, userInfo } from "node:os"
import { join } from "node:path"
import { CommandEnvironment } from "../../src/places/CommandEnvironment.ts"

const output = (program: string, args: ReadonlyArray<string>): string | undefined => {
  const { error, status, stdout } = spawnSync(program, args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
    timeout: 20_000
  })
  return error === undefined && status === 0 ? stdout.trim() : undefined
}

const busybox = (): string | undefined => {
  const path = output("sh", ["-c", "command -v busybox"])
  return path !== undefined && (output("ldd", [path]) ?? "not a dynamic executable").includes("=>") ? undefined : path
}

/** Builds an environment from its layer. */
export const built = <E>(layer: Layer.Layer<CommandEnvironment, E, NodeServices.NodeServices>) =>
  Effect.flatMap(Layer.build(layer), (context) => Effect.provideContext(CommandEnvironment, context))

export interface Engine {
  readonly program: string
  readonly image: string
}

/** An engine with an image of BusyBox, or the reason why there is none. Both are gone with `dispose`. */
export const engine = (
  kind: "docker" | "podman"
): { readonly engine?: Engine; readonly reason?: string; readonly dispose: () => void } => {
  const none = (reason: string) => ({ reason, dispose: () => {} })
  if (output(kind, ["--version"]) === undefined) return none(`${kind} is not installed`)
  if (output(kind, ["info"]) === undefined) return none(`${kind} does not answer`)
  const box = busybox()
  if (box === undefined) return none("there is no static busybox to make an image of")
  const directory = mkdtempSync(join(tmpdir(), "hermes-image-"))
  const clean = () => rmSync(directory, { recursive: true, force: true })
  const root = join(directory, "root")
  for (const name of ["bin", "tmp", "etc", "dev", "proc", "sys", "home"])
    mkdirSync(join(root, name), { recursive: true })
  // As every image has it: a mount there takes over who may write.
  chmodSync(join(root, "tmp"), 0o1777)
  copyFileSync(box, join(root, "bin/busybox"))
  for (const applet of (output(box, ["--list"]) ?? "").split("\n"))
    if (applet !== "busybox" && applet !== "") symlinkSync("busybox", join(root, "bin", applet))
  // A program that makes terminals, with its libraries, as images of a distribution have it.
  const script = output("sh", ["-c", "command -v script"])
  for (const file of script === undefined ? [] : [script, ...((output("ldd", [script]) ?? "").match(/\/\S+/g) ?? [])]) {
    const target = file === script ? join(root, "bin/script") : join(root, file)
    mkdirSync(join(target, ".."), { recursive: true })
    rmSync(target, { force: true })
    copyFileSync(file, target)
  }
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")
  const tar = join(directory, "image.tar")
  execFileSync("tar", ["-C", root, "-cf", tar, "."])
  const image = `hermes-suite-${process.pid}:1`
  if (output(kind, ["import", tar, image]) === undefined) {
    clean()
    return none(`${kind} cannot import an image`)
  }
  rmSync(tar)
  const dispose = () => {
    spawnSync(kind, ["rmi", "--force", image], { stdio: "ignore" })
    clean()
  }
  const limits = kind === "podman" ? ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"] : []
  const tried = (program: string) => {
    const { status, stderr } = spawnSync(program, ["run", "--rm", "--network", "none", ...limits, image, "/bin/true"], {
      encoding: "utf8"
    })
    return status === 0 ? undefined : stderr.trim().split("\n").at(-1)
  }
  const failure = tried(kind)
  if (failure === undefined) return { engine: { program: kind, image }, dispose }
  // Podman's own runtime does not work on every machine that has Podman.
  const program = join(directory, kind)
  writeFileSync(program, `#!/bin/sh\nexec ${output("sh", ["-c", `command -v ${kind}`])} --runtime runc "$@"\n`)
  chmodSync(program, 0o755)
  if (kind === "podman" && tried(program) === undefined) return { engine: { program, image }, dispose }
  dispose()
  return none(`${kind} cannot run a container: ${failure}`)
}

/** A server of ssh that lets one key of its own in. */
export interface SshServer {
  readonly user: string
  readonly port: number
  readonly key: string
  /** Arguments of `ssh` that know the server's key. */
  readonly known: ReadonlyArray<string>
  /** Ends the connections that there are. */
  readonly endSessions: () => void
  readonly stop: () => void
}

export const sshd = output("sh", ["-c", "command -v /usr/sbin/sshd || command -v sshd"])
export const sshReason =
  sshd === undefined
    ? "sshd is not installed"
    : output("ssh", ["-V"]) === undefined
      ? "ssh is not installed"
      : undefined

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

/** A server on a free port of this machine, with keys of its own. */
export const sshServer = Effect.acquireRelease(
  Effect.promise(async (): Promise<SshServer & { readonly directory: string }> => {
    const directory = mkdtempSync(join(tmpdir(), "hermes-sshd-"))
    const key = (name: string) =>
      execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", join(directory, name)])
    key("host")
    key("user")
    copyFileSync(join(directory, "user.pub"), join(directory, "authorized"))
    // A root without it: the server wants one that nobody else can write.
    if (process.getuid?.() === 0 && !existsSync("/run/sshd")) mkdirSync("/run/sshd", { mode: 0o755 })
    for (let attempt = 0; ; attempt++) {
      const port = await freePort()
      writeFileSync(
        join(directory, "config"),
        [
          `ListenAddress 127.0.0.1:${port}`,
          `HostKey ${directory}/host`,
          `AuthorizedKeysFile ${directory}/authorized`,
          "PidFile none",
          "StrictModes no",
          "PasswordAuthentication no",
          "KbdInteractiveAuthentication no",
          "UsePAM no",
          "PermitRootLogin prohibit-password",
          "AcceptEnv LANG",
          // A shell of a deeper level reads no start-up file: those of the user of this machine are no part of a test.
          "SetEnv SHLVL=5",
          ""
        ].join("\n")
      )
      writeFileSync(
        join(directory, "known"),
        `[127.0.0.1]:${port} ${readFileSync(join(directory, "host.pub"), "utf8")}`
      )
      const server = spawn(sshd ?? "sshd", ["-D", "-e", "-f", join(directory, "config")], {
        stdio: ["ignore", "ignore", "pipe"]
      })
      const listens = await new Promise<boolean>((resolve) => {
        server.stderr.on("data", (text) => String(text).includes("Server listening") && resolve(true))
        server.once("exit", () => resolve(false))
      })
      if (listens) {
        return {
          directory,
          user: userInfo().username,
          port,
          key: join(directory, "user"),
          known: ["-F", "/dev/null", "-o", `UserKnownHostsFile=${directory}/known`, "-o", "IdentitiesOnly=yes"],
          endSessions: () => {
            for (const pid of (output("ps", ["-o", "pid=", "--ppid", String(server.pid)]) ?? "").split("\n"))
              process.kill(Number(pid), "SIGKILL")
          },
          stop: () => void server.kill("SIGTERM")
        }
      }
      if (attempt === 4) throw new Error("sshd does not start")
    }
  }),
  ({ directory, stop }) =>
    Effect.sync(() => {
      stop()
      rmSync(directory, { recursive: true, force: true })
    })
)
