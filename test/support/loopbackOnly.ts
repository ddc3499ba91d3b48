// Loaded with `--import` before a program under test: connections leave this machine's loopback never, and each one
// that would is told in the file that LOOPBACK_ONLY_LOG names, a host a line.
import { appendFileSync } from "node:fs"
import { Socket } from "node:net"

const connect = Socket.prototype.connect

const isLoopback = (host: string): boolean => host === "localhost" || host === "::1" || host.startsWith("127.")

// The overloads of `connect` have no common parameter list: the first argument is an options record, or a list that
// begins with one.
Socket.prototype.connect = function (this: Socket, ...given: ReadonlyArray<unknown>): Socket {
  const [first] = given
  const options = (Array.isArray(first) ? first[0] : first) as
    | { readonly host?: string; readonly path?: string | null }
    | undefined
  const host = options?.host ?? "localhost"
  if (typeof options !== "object" || typeof options.path === "string" || isLoopback(host))
    return Reflect.apply(connect, this, given)
  const log = process.env["LOOPBACK_ONLY_LOG"]
  if (log !== undefined) appendFileSync(log, `${host}\n`)
  process.nextTick(() =>
    this.destroy(Object.assign(new Error(`connect ECONNREFUSED ${host}`), { code: "ECONNREFUSED" }))
  )
  return this
}
