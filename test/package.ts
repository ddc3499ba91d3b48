// `npm run test:package`: what `npm pack` makes installs into an empty folder and runs there, without the checkout. It needs
// the package registry and some time, so it stands beside the tests.
import { execFileSync } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { root } from "./support/sources.ts"

const folder = mkdtempSync(join(tmpdir(), "hermes-package-"))

const run = (command: string, args: ReadonlyArray<string>, cwd: string): string =>
  execFileSync(command, args, {
    cwd,
    encoding: "utf8",
    env: { ...process.env, HERMES_HOME: join(folder, "home") },
    stdio: ["ignore", "pipe", "inherit"]
  })

const expect = (what: string, actual: string, wanted: string): void => {
  if (actual !== wanted) throw new Error(`${what}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(actual)}`)
  process.stdout.write(`ok ${what}\n`)
}

try {
  run("npm", ["pack", "--silent", "--pack-destination", folder], root)
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"))
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }))
  run("npm", ["install", "--silent", "--no-audit", "--no-fund", join(folder, tarball)], folder)
  const bin = join(folder, "node_modules/.bin/hermes")
  expect("the program answers", run(process.execPath, [bin, "chat", "-Q", "-q", "Reply exactly ok"], folder), "ok\n")
  writeFileSync(
    join(folder, "embed.js"),
    "import * as Effect from 'effect/Effect'\n" +
      "import { Agent, Runtime } from 'hermes-effect'\n" +
      "const run = Agent.run({ prompt: 'Reply exactly: embedded' })\n" +
      "console.log((await Effect.runPromise(Effect.provide(run, Runtime.layer()))).text)\n"
  )
  expect("an application embeds it", run(process.execPath, ["embed.js"], folder), "embedded\n")
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.stdout.write("2 passed, 0 failed\n")
