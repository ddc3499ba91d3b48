/**
 * Addresses of the studio's pages, in the URL fragment: `#/?status=error`, `#/insights`,
 * `#/session/ID?tab=totals&row=4`, `#/compare?left=A&right=B`. Links and the browser's back and forward buttons use
 * these addresses.
 */
import { el } from "../../trace/page/Elements.ts"

/** A page and its parameters. */
export interface Route {
  readonly page: string
  /** Id of the session on a session's page. Empty on other pages. */
  readonly id: string
  readonly parameters: URLSearchParams
}

const decodeComponent = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Parses the current address. */
export const route = (): Route => {
  const [path = "", ...rest] = location.hash.replace(/^#\/?/u, "").split("?")
  const [page = "", ...id] = path.split("/")
  return { page, id: decodeComponent(id.join("/")), parameters: new URLSearchParams(rest.join("?")) }
}

/** Formats an address. */
export const address = (
  page: string,
  parameters?: URLSearchParams | Readonly<Record<string, string>>,
  id = ""
): string => {
  const query = new URLSearchParams(parameters).toString()
  return `#/${page}${id === "" ? "" : `/${encodeURIComponent(id)}`}${query === "" ? "" : `?${query}`}`
}

/** Returns the address of a session's page. */
export const toSession = (id: string, parameters?: Readonly<Record<string, string>>): string =>
  address("session", parameters, id)

/** Navigates to an address. `replace` removes the previous address from the history. */
export const go = (to: string, replace = false): void => {
  if (replace) {
    history.replaceState(null, "", to)
    dispatchEvent(new HashChangeEvent("hashchange"))
  } else location.hash = to
}

/** Changes query parameters in the address without navigating. A parameter with an empty value is removed. */
export const remember = (changes: Readonly<Record<string, string>>): void => {
  const { id, page, parameters } = route()
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") parameters.delete(name)
    else parameters.set(name, value)
  }
  history.replaceState(null, "", address(page, parameters, id))
}

/** Creates a link to a page of the studio. */
export const link = (text: string, to: string, className = ""): HTMLAnchorElement => {
  const made = el("a", className, text)
  made.href = to
  return made
}
