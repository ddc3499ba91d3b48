// Makes this process slow at looking who has a lease, in every database that it opens, so that any other process could
// slip in between the look and the taking.
import { StatementSync } from "node:sqlite"

export const slowLeases = (millis: number): void => {
  StatementSync.prototype.all = new Proxy(StatementSync.prototype.all, {
    apply: (all, statement: StatementSync, parameters: ReadonlyArray<unknown>) => {
      const rows: unknown = Reflect.apply(all, statement, parameters)
      if (/^\s*SELECT\b[^]*\bFROM leases\b/.test(statement.sourceSQL)) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, millis)
      }
      return rows
    }
  })
}
