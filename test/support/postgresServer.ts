// A Postgres server in a temporary folder, on a Unix socket alone, from the machine's own binaries. Where there are
// none, tests are skipped by name.
import { execFileSync, spawn, type ChildProcess } from "node:child_process"
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { root } from "./sources.ts"

const versions = existsSync("/usr/lib/postgresql")
  ? readdirSync("/usr/lib/postgresql").toSorted((a, b) => Number(b) - Number(a))
  : []
const binaries = versions
  .map((version) => `/usr/lib/postgresql/${version}/bin`)
  .find((path) => existsSync(`${path}/postgres`))

const isRoot = process.getuid?.() === 0
/** The user that the server runs as where tests run as root, which it refuses. */
const owner = (() => {
  if (!isRoot) return undefined
  try {
    const id = (flag: string): number =>
      Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }))
    return { uid: id("-u"), gid: id("-g") }
  } catch {
    return undefined
  }
})()

/** Reason why there is no server on this machine; undefined where there can be one. */
export const missing =
  binaries === undefined
    ? "no Postgres on this machine"
    : isRoot && owner === undefined
      ? "no user postgres"
      : undefined

export interface Server {
  /** Address of the database with a schema of its own. */
  readonly url: (schema: string, database?: string) => string
  readonly stop: () => Promise<void>
  /** Starts it again after {@link Server.stop}. */
  readonly start: () => Promise<void>
  readonly query: (sql: string) => string
  /** Folder of the server; `data` is its data directory. */
  readonly folder: string
  /** Ends it and removes its folder. */
  readonly remove: () => Promise<void>
}

const wait = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis))

/** Makes a folder that belongs to the user of the server. */
const makeFolder = (parent: string, prefix: string): string => {
  const folder = mkdtempSync(join(parent, prefix))
  if (owner !== undefined) chownSync(folder, owner.uid, owner.gid)
  chmodSync(folder, 0o755)
  return folder
}

/** Folder of the data directories that servers begin with, one for each release. */
const clusters = join(root, "node_modules/.cache/postgres")

/** Returns the data directory that servers of this release begin with. It is made once, and kept. */
const makeCluster = (binaries: string): string => {
  const release = execFileSync(`${binaries}/postgres`, ["--version"], { encoding: "utf8" }).replaceAll(/\W+/g, "-")
  const found = join(clusters, `${release}${owner?.uid ?? ""}`)
  if (existsSync(found)) return found
  // The user of the server may not reach the folder of the project.
  const folder = makeFolder(tmpdir(), "hermes-initdb-")
  try {
    execFileSync(
      `${binaries}/initdb`,
      ["-D", `${folder}/data`, "-U", "hermes", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
      { ...owner, cwd: folder, stdio: "ignore" }
    )
    mkdirSync(clusters, { recursive: true })
    const unfinished = `${found}.${process.pid}`
    execFileSync("cp", ["-a", `${folder}/data`, unfinished])
    try {
      renameSync(unfinished, found)
    } catch (error) {
      // Another process was faster.
      rmSync(unfinished, { recursive: true, force: true })
      if (!existsSync(found)) throw error
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return found
}

/** Starts a server; `settings` are those of `postgres -c`. */
export const startServer = async (settings: Readonly<Record<string, string>> = {}): Promise<Server> => {
  if (binaries === undefined) throw new Error(missing)
  const folder = makeFolder(tmpdir(), "hermes-postgres-")
  const as = owner === undefined ? {} : owner
  // A copy takes a fifth of the time of `initdb`, and keeps the owner.
  execFileSync("cp", ["-a", makeCluster(binaries), `${folder}/data`])
  const all = {
    listen_addresses: "",
    unix_socket_directories: folder,
    fsync: "off",
    max_connections: "200",
    shared_buffers: "32MB",
    autovacuum: "off",
    log_min_messages: "fatal",
    ...settings
  }
  let child: ChildProcess | undefined
  const client = (database: string, sql: string): string =>
    execFileSync(`${binaries}/psql`, ["-h", folder, "-U", "hermes", "-d", database, "-qtAX", "-c", sql], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"]
    }).trim()
  const start = async () => {
    child = spawn(
      `${binaries}/postgres`,
      ["-D", `${folder}/data`, ...Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`])],
      { ...as, cwd: folder, stdio: "ignore" }
    )
    for (let tries = 0; ; tries++) {
      try {
        client("postgres", "SELECT 1")
        return
      } catch (error) {
        if (tries > 200) throw error
        await wait(50)
      }
    }
  }
  const stop = async () => {
    const running = child
    if (running === undefined || running.exitCode !== null) return
    const ended = new Promise((resolve) => running.once("exit", resolve))
    // Fast shutdown: connections are cut.
    running.kill("SIGINT")
    await ended
    child = undefined
  }
  await start()
  client("postgres", "CREATE DATABASE hermes")
  return {
    url: (schema, database = "hermes") =>
      `postgres://hermes@localhost/${database}?host=${encodeURIComponent(folder)}&schema=${schema}`,
    start,
    stop,
    query: (sql) => client("hermes", sql),
    folder,
    remove: async () => {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
