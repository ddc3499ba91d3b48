// Processes of `remoteOwner.ts`, and requests to the servers among them.
import { assert } from "@effect/vitest"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { readEvents } from "./servedAgent.ts"
import { commandOf } from "./runScript.ts"

/** Starts processes that work in one folder. */
export const makeProcesses = (readFolder: () => string) => {
  const children: Array<ChildProcess> = []

  /** Starts a process, and waits for its first line. */
  const start = async (kind: "runner" | "serve", database: string, fatal = "") => {
    const [command, ...args] = commandOf("remoteOwner.ts", [kind, database, readFolder(), fatal])
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] })
    children.push(child)
    const ended = once(child, "exit")
    const line: string = await new Promise((resolve) =>
      createInterface({ input: child.stdout ?? assert.fail() }).once("line", resolve)
    )
    return { line, ended, kill: () => (child.kill("SIGKILL"), ended) }
  }

  /** Starts a server in another process. */
  const serve = async (database: string, fatal = "") => {
    const { ended, kill, line } = await start("serve", database, fatal)
    const [url = "", key = ""] = line.split(" ")
    const headers = { authorization: `Bearer ${key}` }
    const fetched = async (path: string, json?: unknown) => {
      const response = await fetch(`${url}${path}`, {
        headers: { ...headers, ...(json === undefined ? {} : { "content-type": "application/json" }) },
        ...(json === undefined ? {} : { method: "POST", body: JSON.stringify(json) })
      })
      const text = await response.text()
      return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text }
    }
    return {
      ended,
      kill,
      fetched,
      read: (id: string) => readEvents(`${url}/v1/sessions/${id}/events`, headers),
      send: (id: string, json: object) => fetched(`/v1/sessions/${id}/messages`, json)
    }
  }

  const killAll = (): void => {
    for (const child of children) child.kill("SIGKILL")
  }
  return { start, serve, killAll }
}
