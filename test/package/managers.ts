// Package managers and runtimes beside npm and Node: pnpm, Yarn with Plug'n'Play, Bun and Deno. Each installs the package
// and runs the loop and the program.
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { loop, loopAnswer, models, offline } from "./programs.ts"
import { expect, makeFolder, pack, releases, run, runNode, type Workspace } from "./workspace.ts"

const question = ["chat", "-Q", "-q", "Reply exactly ok", "--provider", "offline"]

const writePrograms = ({ write }: Workspace): void => {
  write("offline.js", offline)
  write("models.js", models)
  write("loop.js", loop)
  write("server.js", `import { answer } from "./loop.js"\nconsole.log(await answer())\n`)
}

/** Makes an empty project with the programs, and a folder of tools that npm installs. */
const makeProject = (name: string, tools: ReadonlyArray<string>) => {
  const project = makeFolder(name)
  const installed = makeFolder(`${name}-tools`)
  installed.install(...tools)
  writePrograms(project)
  return { project, tools: installed.modules }
}

/** Runs the loop and the program, and compares what they print. */
const checkRuns = (what: string, { path }: Workspace, command: string, program: ReadonlyArray<string>): void => {
  const runWith = (args: ReadonlyArray<string>): string => run(command, args, path)
  expect(`the loop runs: ${what}`, runWith([...program.slice(0, -1), "server.js"]), `${loopAnswer}\n`)
  expect(`the program answers: ${what}`, runWith([...program, ...question]), "ok\n")
}

const bin = "node_modules/hermes-effect/dist/bin.js"

/** Pnpm installs it in folders that hide what a package does not declare. */
export const checkPnpm = (): void => {
  const { project, tools } = makeProject("pnpm", ["pnpm@12"])
  const pnpm = join(tools, "pnpm/bin/pnpm.mjs")
  const store = join(project.path, ".store")
  const add = (...packages: ReadonlyArray<string>): string =>
    runNode([pnpm, "add", "--silent", "--ignore-scripts", "--store-dir", store, ...packages], project.path)
  add(pack(), releases.openai)
  project.write("plain.js", `import { answer } from "./offline.js"\nconsole.log(await answer())\n`)
  expect("without Effect, pnpm needs no other package", runNode(["plain.js"], project.path), "promised\n")
  // An application that imports Effect declares it.
  add("effect@4")
  checkRuns("pnpm", project, process.execPath, [bin])
}

/** Yarn installs it without a folder of modules. */
export const checkYarn = (): void => {
  const { project, tools } = makeProject("yarn", ["@yarnpkg/cli-dist@4"])
  const yarn = join(tools, "@yarnpkg/cli-dist/bin/yarn.js")
  const registry = run("npm", ["config", "get", "registry"], project.path).trim()
  const settings = {
    enableGlobalCache: false,
    enableScripts: false,
    enableTelemetry: false,
    nodeLinker: "pnp",
    npmRegistryServer: registry
  }
  // YAML includes JSON.
  project.write(".yarnrc.yml", JSON.stringify(settings))
  project.write("yarn.lock", "")
  runNode([yarn, "add", `hermes-effect@file:${pack()}`, "effect@4", releases.openai], project.path)
  const runWith = (args: ReadonlyArray<string>): string => runNode([yarn, ...args], project.path)
  expect("the loop runs: Yarn PnP", runWith(["node", "server.js"]), `${loopAnswer}\n`)
  expect("the program answers: Yarn PnP", runWith(["hermes", ...question]), "ok\n")
}

/** Bun installs and runs it. */
export const checkBun = (): void => {
  const { project, tools } = makeProject("bun", ["bun@1"])
  const bun = join(tools, "bun/bin/bun.exe")
  run(bun, ["add", "--silent", pack(), releases.openai], project.path)
  checkRuns("Bun", project, bun, [bin])
}

/** Deno runs it from a folder of modules. */
export const checkDeno = (): void => {
  const { project, tools } = makeProject("deno", ["deno@2"])
  const [machine = ""] = readdirSync(join(tools, "@deno"))
  const deno = join(tools, "@deno", machine, "deno")
  project.install(pack(), releases.openai)
  checkRuns("Deno", project, deno, ["run", "--allow-all", "--node-modules-dir=manual", bin])
}
