import { Middleware } from "hermes-effect"

// Made by `new` with the parameters as they stand in the file.
export class AuditMiddleware {
  readonly name: string

  constructor({ log_file }: { readonly log_file: string }) {
    this.name = `audit to ${log_file}`
  }

  before_tool() {
    return Middleware.noChanges
  }
}
