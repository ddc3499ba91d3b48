// The Dockerfile, built by an engine of this machine and run. No registry is needed: the base is an image of this
// machine's own Node and programs, in which `apt-get` does nothing and `npm` brings the built package.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import {
  cpSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as playedModel from "./support/playedModel.ts"
import { root } from "./support/sources.ts"

const output = (program: string, args: ReadonlyArray<string>): string | undefined => {
  const { error, status, stdout } = spawnSync(program, args, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
    timeout: 20_000
  })
  return error === undefined && status === 0 ? stdout.trim() : undefined
}

/** Programs that the instructions and the entry of the image start. */
const programs = ["sh", "env", "useradd", "install", "rm", "ln", "chmod", "cp", "id", "touch"]
const found = programs.map((name) => output("sh", ["-c", `command -v ${name} || command -v /usr/sbin/${name}`]))

const reason =
  output("docker", ["info"]) === undefined
    ? "docker does not answer"
    : found.includes(undefined)
      ? "a program of the base is missing"
      : existsSync(join(root, "dist/hermes/main.js"))
        ? undefined
        : "the package is not built: npm run build"

const files = (paths: ReadonlyArray<string>): ReadonlySet<string> =>
  new Set(paths.flatMap((path) => [path, ...((output("ldd", [path]) ?? "").match(/\/\S+/gu) ?? [])]))

/** Makes the base of both stages. */
const importBase = (place: string, image: string): void => {
  const base = join(place, "base")
  for (const name of [
    "bin",
    "usr/bin",
    "usr/local/bin",
    "etc",
    "tmp",
    "proc",
    "sys",
    "dev",
    "var/lib/apt/lists",
    "home",
    "root",
    "provided"
  ])
    mkdirSync(join(base, name), { recursive: true })
  const put = (from: string, to: string): void => {
    mkdirSync(dirname(join(base, to)), { recursive: true })
    copyFileSync(realpathSync(from), join(base, to))
  }
  for (const file of files([...found.filter((path) => path !== undefined), process.execPath])) {
    put(
      file,
      file === process.execPath
        ? "usr/local/bin/node"
        : found.includes(file)
          ? `usr/bin/${file.split("/").at(-1)}`
          : file
    )
  }
  put(join(base, "usr/bin/sh"), "bin/sh")
  for (const [name, text] of [
    ["passwd", "root:x:0:0:root:/root:/bin/sh\n"],
    ["group", "root:x:0:\n"],
    ["shadow", "root:*:1::::::\n"],
    ["gshadow", "root:*::\n"],
    ["login.defs", "UID_MIN 1000\nUID_MAX 60000\nGID_MAX 60000\n"]
  ] as const) {
    writeFileSync(join(base, "etc", name), text)
  }
  writeFileSync(join(base, "usr/bin/apt-get"), "#!/bin/sh\nexit 0\n", { mode: 0o755 })
  writeFileSync(join(base, "usr/local/bin/npm"), '#!/bin/sh\n[ "$1" = ci ] || cp -R /provided/dist dist\n', {
    mode: 0o755
  })
  cpSync(join(root, "dist"), join(base, "provided/dist"), { recursive: true })
  const tar = join(place, "base.tar")
  execFileSync("tar", ["-C", base, "--owner=0", "--group=0", "-cf", tar, "."])
  execFileSync(
    "docker",
    ["import", "--change", "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", tar, image],
    { stdio: "pipe" }
  )
}

const build = (place: string, base: string, image: string): void => {
  const context = join(place, "context")
  mkdirSync(context)
  for (const name of ["package.json", "package-lock.json", "tsconfig.json"])
    copyFileSync(join(root, name), join(context, name))
  for (const name of ["test", "src"])
    cpSync(join(root, name), join(context, name), { recursive: true, filter: (path) => !path.includes("node_modules") })
  writeFileSync(
    join(context, "Dockerfile"),
    readFileSync(join(root, ".github/Dockerfile"), "utf8").replaceAll(
      /^FROM \S+(.*)$/gmu,
      `FROM ${base}$1\nLABEL hermes-suite=${process.pid}`
    )
  )
  const { status, stderr, stdout } = spawnSync(
    "docker",
    ["build", "--force-rm", "--network", "none", "--tag", image, context],
    { encoding: "utf8", env: { ...process.env, DOCKER_BUILDKIT: "0" } }
  )
  if (status !== 0) throw new Error(`docker build: ${stdout}${stderr}`)
}

const withImage = Effect.acquireRelease(
  Effect.sync(() => {
    const place = mkdtempSync(join(tmpdir(), "hermes-docker-"))
    const [base, image] = [`hermes-suite-base-${process.pid}:1`, `hermes-suite-program-${process.pid}:1`]
    const dispose = (): void => {
      spawnSync("docker", ["rmi", "--force", image], { stdio: "ignore" })
      // Those of the steps between, which have no name.
      spawnSync("docker", ["image", "prune", "--force", "--filter", `label=hermes-suite=${process.pid}`], {
        stdio: "ignore"
      })
      spawnSync("docker", ["rmi", "--force", base], { stdio: "ignore" })
      rmSync(place, { recursive: true, force: true })
    }
    try {
      importBase(place, base)
      build(place, base, image)
    } catch (error) {
      dispose()
      throw error
    }
    return { image, dispose }
  }),
  ({ dispose }) => Effect.sync(dispose)
)

const run = (image: string, options: ReadonlyArray<string>, args: ReadonlyArray<string>) =>
  Effect.callback<{ readonly code: number | null; readonly out: string; readonly err: string }>((resume) => {
    const child = spawn(
      "docker",
      [
        "run",
        "--rm",
        "--read-only",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--network",
        "host",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/home/hermes/.hermes:uid=10001,gid=10001,mode=0700",
        ...options,
        image,
        ...args
      ],
      { stdio: ["ignore", "pipe", "pipe"] }
    )
    let [out, err] = ["", ""]
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text))
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text))
    child.once("close", (code) => resume(Effect.succeed({ code, out, err })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

describe("the image of the Dockerfile", () => {
  it.live.skipIf(reason !== undefined)(
    `runs as a user without rights, on a file system that only reads${reason === undefined ? "" : ` (not tested: ${reason})`}`,
    () =>
      Effect.gen(function* () {
        const { url } = yield* playedModel.make({
          "say hello": [{ text: "Hello from inside." }],
          "write it": [{ calls: [["terminal", { command: "id -u; touch /opt/hermes/x" }]] }, { text: "Tried." }]
        })
        const { image } = yield* withImage
        const model = [
          "-e",
          "OPENAI_API_KEY=k",
          "-e",
          `OPENAI_BASE_URL=${url}/v1`,
          "-e",
          "HERMES_MODEL__CONTEXT_LENGTH=100000",
          "-e",
          "HERMES_TERMINAL__BACKEND=local"
        ]
        const version = yield* run(image, [], ["--version"])
        assert.deepStrictEqual(
          [version.code, version.out, version.err],
          [0, `hermes ${JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version}\n`, ""]
        )
        const answered = yield* run(image, model, [
          "chat",
          "--provider",
          "custom",
          "--model",
          "m",
          "-Q",
          "-q",
          "say hello"
        ])
        assert.deepStrictEqual([answered.code, answered.out.trim()], [0, "Hello from inside."], answered.err)
        const wrote = yield* run(image, model, [
          "chat",
          "--provider",
          "custom",
          "--model",
          "m",
          "--yolo",
          "--format",
          "stream-json",
          "-q",
          "write it"
        ])
        assert.strictEqual(wrote.code, 0, wrote.err)
        assert.match(wrote.out, /10001/u)
        assert.match(wrote.out, /Read-only file system/u)
      })
  )
})
