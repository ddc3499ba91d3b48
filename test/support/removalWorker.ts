// A process that removes tenant acme from a Postgres database. It kills itself with the message to the database whose
// number is its second argument, sent or not; 0 lets it end. It prints `removed` at its end.
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { writeSync } from "node:fs"
import { Socket } from "node:net"
import * as TenantRemoval from "../../src/agent/TenantRemoval.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as TenantLedger from "../../src/store/tenants/TenantLedger.ts"

const [address = "", last = "0"] = process.argv.slice(2)
const url = Redacted.make(address)

/** Ends this process with a message to the database. A message with an even number is still sent. */
const killAt = (last: number): void => {
  const { write } = Socket.prototype
  let sent = 0
  Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
    sent++
    if (sent < last) return write.apply(this, args)
    if (last % 2 === 0) write.apply(this, args)
    process.kill(process.pid, "SIGKILL")
    return false
  } as typeof write // Its overloads differ in optional arguments only.
}

const program = Effect.gen(function* () {
  // Both databases are open, and their schemas exist.
  yield* SessionStore.SessionStore.use((store) => store.list({ limit: 1 }))
  yield* TenantLedger.TenantLedger.use((ledger) => ledger.usage({ tenant: "acme" }))
  if (last !== "0") killAt(Number(last))
  yield* TenantRemoval.removeTenant("acme", [TenantRemoval.sessions, TenantRemoval.usage])
  writeSync(1, "removed\n")
})

const stores = Layer.merge(SessionStore.layerPostgres({ url }), TenantLedger.layerPostgres({ url }))
await Effect.runPromise(Effect.provide(program, stores))
