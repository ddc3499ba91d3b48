/** Tools that search the web and read pages, with the fence of their addresses. */
export * as Web from "../../../tools/builtin/Web.ts"
export * as SearchProvider from "../../../tools/builtin/SearchProvider.ts"
export * as Urls from "../../../tools/fence/Urls.ts"
