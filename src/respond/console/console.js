var ct=globalThis,dt=ct.ShadowRoot&&(ct.ShadyCSS===void 0||ct.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,Yt=Symbol(),Gt=new WeakMap,ht=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==Yt)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if(dt&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=Gt.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&Gt.set(e,t))}return t}toString(){return this.cssText}},Qt=n=>new ht(typeof n=="string"?n:n+"",void 0,Yt);var Xt=(n,t)=>{if(dt)n.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),r=ct.litNonce;r!==void 0&&s.setAttribute("nonce",r),s.textContent=e.cssText,n.appendChild(s)}},xt=dt?n=>n:n=>n instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return Qt(e)})(n):n;var{is:Ge,defineProperty:Ye,getOwnPropertyDescriptor:Qe,getOwnPropertyNames:Xe,getOwnPropertySymbols:Ze,getPrototypeOf:ts}=Object,pt=globalThis,Zt=pt.trustedTypes,es=Zt?Zt.emptyScript:"",ss=pt.reactiveElementPolyfillSupport,Q=(n,t)=>n,Et={toAttribute(n,t){switch(t){case Boolean:n=n?es:null;break;case Object:case Array:n=n==null?n:JSON.stringify(n)}return n},fromAttribute(n,t){let e=n;switch(t){case Boolean:e=n!==null;break;case Number:e=n===null?null:Number(n);break;case Object:case Array:try{e=JSON.parse(n)}catch{e=null}}return e}},ee=(n,t)=>!Ge(n,t),te={attribute:!0,type:String,converter:Et,reflect:!1,useDefault:!1,hasChanged:ee};Symbol.metadata??=Symbol("metadata"),pt.litPropertyMetadata??=new WeakMap;var C=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=te){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),r=this.getPropertyDescriptor(t,s,e);r!==void 0&&Ye(this.prototype,t,r)}}static getPropertyDescriptor(t,e,s){let{get:r,set:i}=Qe(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:r,set(o){let a=r?.call(this);i?.call(this,o),this.requestUpdate(t,a,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??te}static _$Ei(){if(this.hasOwnProperty(Q("elementProperties")))return;let t=ts(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(Q("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(Q("properties"))){let e=this.properties,s=[...Xe(e),...Ze(e)];for(let r of s)this.createProperty(r,e[r])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,r]of e)this.elementProperties.set(s,r)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let r=this._$Eu(e,s);r!==void 0&&this._$Eh.set(r,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let r of s)e.unshift(xt(r))}else t!==void 0&&e.push(xt(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return Xt(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),r=this.constructor._$Eu(t,s);if(r!==void 0&&s.reflect===!0){let i=(s.converter?.toAttribute!==void 0?s.converter:Et).toAttribute(e,s.type);this._$Em=t,i==null?this.removeAttribute(r):this.setAttribute(r,i),this._$Em=null}}_$AK(t,e){let s=this.constructor,r=s._$Eh.get(t);if(r!==void 0&&this._$Em!==r){let i=s.getPropertyOptions(r),o=typeof i.converter=="function"?{fromAttribute:i.converter}:i.converter?.fromAttribute!==void 0?i.converter:Et;this._$Em=r;let a=o.fromAttribute(e,i.type);this[r]=a??this._$Ej?.get(r)??a,this._$Em=null}}requestUpdate(t,e,s,r=!1,i){if(t!==void 0){let o=this.constructor;if(r===!1&&(i=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??ee)(i,e)||s.useDefault&&s.reflect&&i===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:r,wrapped:i},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),i!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),r===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[r,i]of this._$Ep)this[r]=i;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[r,i]of s){let{wrapped:o}=i,a=this[r];o!==!0||this._$AL.has(r)||a===void 0||this.C(r,void 0,i,a)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};C.elementStyles=[],C.shadowRootOptions={mode:"open"},C[Q("elementProperties")]=new Map,C[Q("finalized")]=new Map,ss?.({ReactiveElement:C}),(pt.reactiveElementVersions??=[]).push("2.1.2");var Rt=globalThis,se=n=>n,ut=Rt.trustedTypes,ne=ut?ut.createPolicy("lit-html",{createHTML:n=>n}):void 0,At="$lit$",M=`lit$${Math.random().toFixed(9).slice(2)}$`,Tt="?"+M,ns=`<${Tt}>`,j=document,Z=()=>j.createComment(""),tt=n=>n===null||typeof n!="object"&&typeof n!="function",Pt=Array.isArray,ce=n=>Pt(n)||typeof n?.[Symbol.iterator]=="function",kt=`[ 	
\f\r]`,X=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,re=/-->/g,ie=/>/g,H=RegExp(`>|${kt}(?:([^\\s"'>=/]+)(${kt}*=${kt}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),oe=/'/g,ae=/"/g,he=/^(?:script|style|textarea|title)$/i,Ct=n=>(t,...e)=>({_$litType$:n,strings:t,values:e}),l=Ct(1),de=Ct(2),Zs=Ct(3),y=Symbol.for("lit-noChange"),d=Symbol.for("lit-nothing"),le=new WeakMap,D=j.createTreeWalker(j,129);function pe(n,t){if(!Pt(n)||!n.hasOwnProperty("raw"))throw Error("invalid template strings array");return ne!==void 0?ne.createHTML(t):t}var ue=(n,t)=>{let e=n.length-1,s=[],r,i=t===2?"<svg>":t===3?"<math>":"",o=X;for(let a=0;a<e;a++){let c=n[a],p,m,h=-1,u=0;for(;u<c.length&&(o.lastIndex=u,m=o.exec(c),m!==null);)u=o.lastIndex,o===X?m[1]==="!--"?o=re:m[1]!==void 0?o=ie:m[2]!==void 0?(he.test(m[2])&&(r=RegExp("</"+m[2],"g")),o=H):m[3]!==void 0&&(o=H):o===H?m[0]===">"?(o=r??X,h=-1):m[1]===void 0?h=-2:(h=o.lastIndex-m[2].length,p=m[1],o=m[3]===void 0?H:m[3]==='"'?ae:oe):o===ae||o===oe?o=H:o===re||o===ie?o=X:(o=H,r=void 0);let f=o===H&&n[a+1].startsWith("/>")?" ":"";i+=o===X?c+ns:h>=0?(s.push(p),c.slice(0,h)+At+c.slice(h)+M+f):c+M+(h===-2?a:f)}return[pe(n,i+(n[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},et=class n{constructor({strings:t,_$litType$:e},s){let r;this.parts=[];let i=0,o=0,a=t.length-1,c=this.parts,[p,m]=ue(t,e);if(this.el=n.createElement(p,s),D.currentNode=this.el.content,e===2||e===3){let h=this.el.content.firstChild;h.replaceWith(...h.childNodes)}for(;(r=D.nextNode())!==null&&c.length<a;){if(r.nodeType===1){if(r.hasAttributes())for(let h of r.getAttributeNames())if(h.endsWith(At)){let u=m[o++],f=r.getAttribute(h).split(M),$=/([.?@])?(.*)/.exec(u);c.push({type:1,index:i,name:$[2],strings:f,ctor:$[1]==="."?ft:$[1]==="?"?gt:$[1]==="@"?$t:B}),r.removeAttribute(h)}else h.startsWith(M)&&(c.push({type:6,index:i}),r.removeAttribute(h));if(he.test(r.tagName)){let h=r.textContent.split(M),u=h.length-1;if(u>0){r.textContent=ut?ut.emptyScript:"";for(let f=0;f<u;f++)r.append(h[f],Z()),D.nextNode(),c.push({type:2,index:++i});r.append(h[u],Z())}}}else if(r.nodeType===8)if(r.data===Tt)c.push({type:2,index:i});else{let h=-1;for(;(h=r.data.indexOf(M,h+1))!==-1;)c.push({type:7,index:i}),h+=M.length-1}i++}}static createElement(t,e){let s=j.createElement("template");return s.innerHTML=t,s}};function I(n,t,e=n,s){if(t===y)return t;let r=s!==void 0?e._$Co?.[s]:e._$Cl,i=tt(t)?void 0:t._$litDirective$;return r?.constructor!==i&&(r?._$AO?.(!1),i===void 0?r=void 0:(r=new i(n),r._$AT(n,e,s)),s!==void 0?(e._$Co??=[])[s]=r:e._$Cl=r),r!==void 0&&(t=I(n,r._$AS(n,t.values),r,s)),t}var mt=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,r=(t?.creationScope??j).importNode(e,!0);D.currentNode=r;let i=D.nextNode(),o=0,a=0,c=s[0];for(;c!==void 0;){if(o===c.index){let p;c.type===2?p=new J(i,i.nextSibling,this,t):c.type===1?p=new c.ctor(i,c.name,c.strings,this,t):c.type===6&&(p=new bt(i,this,t)),this._$AV.push(p),c=s[++a]}o!==c?.index&&(i=D.nextNode(),o++)}return D.currentNode=j,r}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},J=class n{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,r){this.type=2,this._$AH=d,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=r,this._$Cv=r?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=I(this,t,e),tt(t)?t===d||t==null||t===""?(this._$AH!==d&&this._$AR(),this._$AH=d):t!==this._$AH&&t!==y&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):ce(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==d&&tt(this._$AH)?this._$AA.nextSibling.data=t:this.T(j.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,r=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=et.createElement(pe(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===r)this._$AH.p(e);else{let i=new mt(r,this),o=i.u(this.options);i.p(e),this.T(o),this._$AH=i}}_$AC(t){let e=le.get(t.strings);return e===void 0&&le.set(t.strings,e=new et(t)),e}k(t){Pt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,r=0;for(let i of t)r===e.length?e.push(s=new n(this.O(Z()),this.O(Z()),this,this.options)):s=e[r],s._$AI(i),r++;r<e.length&&(this._$AR(s&&s._$AB.nextSibling,r),e.length=r)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=se(t).nextSibling;se(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},B=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,r,i){this.type=1,this._$AH=d,this._$AN=void 0,this.element=t,this.name=e,this._$AM=r,this.options=i,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=d}_$AI(t,e=this,s,r){let i=this.strings,o=!1;if(i===void 0)t=I(this,t,e,0),o=!tt(t)||t!==this._$AH&&t!==y,o&&(this._$AH=t);else{let a=t,c,p;for(t=i[0],c=0;c<i.length-1;c++)p=I(this,a[s+c],e,c),p===y&&(p=this._$AH[c]),o||=!tt(p)||p!==this._$AH[c],p===d?t=d:t!==d&&(t+=(p??"")+i[c+1]),this._$AH[c]=p}o&&!r&&this.j(t)}j(t){t===d?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},ft=class extends B{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===d?void 0:t}},gt=class extends B{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==d)}},$t=class extends B{constructor(t,e,s,r,i){super(t,e,s,r,i),this.type=5}_$AI(t,e=this){if((t=I(this,t,e,0)??d)===y)return;let s=this._$AH,r=t===d&&s!==d||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,i=t!==d&&(s===d||r);r&&this.element.removeEventListener(this.name,this,s),i&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},bt=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){I(this,t)}},me={M:At,P:M,A:Tt,C:1,L:ue,R:mt,D:ce,V:I,I:J,H:B,N:gt,U:$t,B:ft,F:bt},rs=Rt.litHtmlPolyfillSupport;rs?.(et,J),(Rt.litHtmlVersions??=[]).push("3.3.3");var fe=(n,t,e)=>{let s=e?.renderBefore??t,r=s._$litPart$;if(r===void 0){let i=e?.renderBefore??null;s._$litPart$=r=new J(t.insertBefore(Z(),i),i,void 0,e??{})}return r._$AI(n),r};var Mt=globalThis,w=class extends C{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=fe(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return y}};w._$litElement$=!0,w.finalized=!0,Mt.litElementHydrateSupport?.({LitElement:w});var is=Mt.litElementPolyfillSupport;is?.({LitElement:w});(Mt.litElementVersions??=[]).push("4.2.2");function wt(){document.activeElement===document.body&&document.querySelector("main")?.focus()}function be(n){return Object.keys(n.components?.securitySchemes??{}).length>0}var{compare:os}=new Intl.Collator("en",{numeric:!0}),ge=({name:n})=>n.replaceAll("/","	");function we(n){return Object.entries(n.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>as(n,t,e)).sort((t,e)=>os(ge(t),ge(e)))}function Lt(n){try{return decodeURI(n)}catch{return n}}function as(n,t,e){let s=(e.parameters??[]).map(a=>{let c=Ot(n,a);return c.schema?c:{...c,schema:{format:"json"}}}),r=s.find(a=>a.name==="_format"),i=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],o=i?Ot(n,i).properties:void 0;return{path:t,name:Lt(t),summary:e.summary??"",params:s.filter(a=>!a.name.startsWith("_")),controls:new Set(s.map(a=>a.name).filter(a=>a.startsWith("_"))),formats:(r?.schema.enum??[]).map(String),columns:Object.entries(o??{}).map(([a,c])=>({name:a,schema:Ot(n,c)})),needsToken:(e.security??[]).some(a=>Object.keys(a).length>0)}}function Ot(n,t){let e=t.$ref;if(!e)return t;let s=n;for(let r of e.slice(2).split("/"))s=s[r];return s}var $e={string:"text",date:"date","date-time":"timestamp","date-time-local":"timestamp without zone","time-local":"time",duration:"duration",uuid:"uuid",json:"json"};function st({type:n,format:t="",items:e,anyOf:s}){if(s)return st(s[0]);let r=[n??"any"].flat()[0];return r==="array"?e?`${st(e)}[]`:"list":$e[t]??$e[r]??r}var Ut="rowstream.token",E=new URL("./",location.href.split("#")[0]),ye=new URL("../",E),x=()=>sessionStorage.getItem(Ut)??"";function ve(n){n?sessionStorage.setItem(Ut,n):sessionStorage.removeItem(Ut)}function v(n,t={}){let e=new Headers(t.headers);return x()&&e.set("Authorization",`Bearer ${x()}`),fetch(n,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function T(n){try{return await n.json()}catch{return{status:n.status,title:n.statusText||`status ${n.status}`}}}async function nt(n,t={}){let e=await v(new URL(n,E),t);if(!e.ok)throw await T(e);return await e.json()}var O={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},U=n=>(...t)=>({_$litDirective$:n,values:t}),P=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:ls}=me,_e=n=>n;var xe=n=>n.strings===void 0,Se=()=>document.createComment(""),V=(n,t,e)=>{let s=n._$AA.parentNode,r=t===void 0?n._$AB:t._$AA;if(e===void 0){let i=s.insertBefore(Se(),r),o=s.insertBefore(Se(),r);e=new ls(i,o,n,n.options)}else{let i=e._$AB.nextSibling,o=e._$AM,a=o!==n;if(a){let c;e._$AQ?.(n),e._$AM=n,e._$AP!==void 0&&(c=n._$AU)!==o._$AU&&e._$AP(c)}if(i!==r||a){let c=e._$AA;for(;c!==i;){let p=_e(c).nextSibling;_e(s).insertBefore(c,r),c=p}}}return e},q=(n,t,e=n)=>(n._$AI(t,e),n),cs={},K=(n,t=cs)=>n._$AH=t,Ee=n=>n._$AH,yt=n=>{n._$AR(),n._$AA.remove()};var qt=U(class extends P{constructor(){super(...arguments),this.key=d}render(n,t){return this.key=n,t}update(n,[t,e]){return t!==this.key&&(K(n),this.key=t),e}});var rt=U(class extends P{constructor(n){if(super(n),n.type!==O.PROPERTY&&n.type!==O.ATTRIBUTE&&n.type!==O.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!xe(n))throw Error("`live` bindings can only contain a single expression")}render(n){return n}update(n,[t]){if(t===y||t===d)return t;let e=n.element,s=n.name;if(n.type===O.PROPERTY){if(t===e[s])return y}else if(n.type===O.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return y}else if(n.type===O.ATTRIBUTE&&e.getAttribute(s)===t+"")return y;return K(n),t}});var ke=(n,t,e)=>{let s=new Map;for(let r=t;r<=e;r++)s.set(n[r],r);return s},Re=U(class extends P{constructor(n){if(super(n),n.type!==O.CHILD)throw Error("repeat() can only be used in text expressions")}dt(n,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let r=[],i=[],o=0;for(let a of n)r[o]=s?s(a,o):o,i[o]=e(a,o),o++;return{values:i,keys:r}}render(n,t,e){return this.dt(n,t,e).values}update(n,[t,e,s]){let r=Ee(n),{values:i,keys:o}=this.dt(t,e,s);if(!Array.isArray(r))return this.ut=o,i;let a=this.ut??=[],c=[],p,m,h=0,u=r.length-1,f=0,$=i.length-1;for(;h<=u&&f<=$;)if(r[h]===null)h++;else if(r[u]===null)u--;else if(a[h]===o[f])c[f]=q(r[h],i[f]),h++,f++;else if(a[u]===o[$])c[$]=q(r[u],i[$]),u--,$--;else if(a[h]===o[$])c[$]=q(r[h],i[$]),V(n,c[$+1],r[h]),h++,$--;else if(a[u]===o[f])c[f]=q(r[u],i[f]),V(n,r[h],r[u]),u--,f++;else if(p===void 0&&(p=ke(o,f,$),m=ke(a,h,u)),p.has(a[h]))if(p.has(a[u])){let _=m.get(o[f]),St=_!==void 0?r[_]:null;if(St===null){let zt=V(n,r[h]);q(zt,i[f]),c[f]=zt}else c[f]=q(St,i[f]),V(n,r[h],St),r[_]=null;f++}else yt(r[u]),u--;else yt(r[h]),h++;for(;f<=$;){let _=V(n,c[$+1]);q(_,i[f]),c[f++]=_}for(;h<=u;){let _=r[h++];_!==null&&yt(_)}return this.ut=o,K(n,c),y}});var hs=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),Ae=["B","KB","MB","GB","TB"],g=n=>hs.format(n),N=(n,t)=>n===1?t:`${t}s`;function S(n){let t=0;for(;n>=1e3&&t<Ae.length-1;)n/=1e3,t+=1;return`${n<10&&t>0?n.toFixed(1):n.toFixed(0)} ${Ae[t]}`}function k(n){if(n<1)return"< 1 ms";if(n<1e3)return`${n.toFixed(0)} ms`;if(n<6e4)return`${(n/1e3).toFixed(1)} s`;let t=Math.floor(n/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var vt=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#e=0;this.#i=!1;this.#n=[];this.#r=0;this.#s=0}#t;#e;#i;#n;#r;#s;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#i){this.#t.push(t),this.#e+=t.length,this.#i=this.#t.length>=1e4||this.#e>=8388608;return}let e=this.#n.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#n.push(e)),e.lines.push(t),e.text+=t.length,this.#r+=1,this.#s+=t.length,(this.#r>=10500||this.#s>8388608)&&this.#o()}#o(){if(this.#n.length<2)return;let t=this.#n.shift();this.#r-=t.lines.length,this.#s-=t.text}#a(t){for(let[e,s]of ot(t)){let r=this.columns.get(e)??{letters:e.length,isLong:!1};r.letters=Math.min(Math.max(r.letters,s.length),48),r.isLong||=s.length>48,s!=="null"&&(r.isNumber=r.isNumber!==!1&&/^[-\d]/.test(s)),this.columns.set(e,r)}}get#l(){return this.total-this.#t.length-this.#r}get length(){return this.#t.length+(this.#l>0?1:0)+this.#r}get text(){return this.#e+this.#s}get kept(){return this.#t.length+this.#r}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let r=this.#t.length+s+e+1;for(let i of this.#n){if(e<i.lines.length)return{row:r,line:i.lines[e]};e-=i.lines.length}}cutTo(t){for(;this.total>t;){this.total-=1;let e=this.#n.at(-1);if(!e){this.#e-=this.#t.pop()?.length??0,this.#i=!1;continue}let s=e.lines.pop()?.length??0;e.text-=s,this.#s-=s,this.#r-=1,e.lines.length===0&&this.#n.pop()}}};function ot(n){let t=it(n,0);if(n[t]!=="{")return[["value",n.trim()]];let e=[];for(t=it(n,t+1);n[t]==='"';){let s=Te(n,t),r=JSON.parse(n.slice(t,s)),i=it(n,it(n,s)+1),o=ds(n,i);e.push([r,n.slice(i,o).trimEnd()]),t=it(n,o+1)}return e}function it(n,t){for(;n[t]===" "||n[t]==="	";)t+=1;return t}function Te(n,t){for(t+=1;t<n.length&&n[t]!=='"';t+=1)n[t]==="\\"&&(t+=1);return t+1}function ds(n,t){let e=0;for(;t<n.length;){let s=n[t];if(s==='"'){t=Te(n,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function Pe(n){let t=n[0];return t==='"'?{kind:"text",text:JSON.parse(n)}:t==="{"||t==="["?{kind:"json",text:n}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:n}}var Me=["ndjson","sse","json-seq"],Ce=1e5,ps=4e3,us=30,z=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.status=0;this.bytes=0;this.rows=new vt;this.text="";this.#t="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#e=new AbortController;this.#i="";this.#n=0;this.#r="";this.#o=!1}#t;#e;#i;#n;#r;#s;#o;get isRows(){return this.asked.format==="ndjson"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#o=!0,this.#e.abort()}async start(){await this.#a(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#n=this.rows.total,this.#r="",this.#s=void 0,this.#o=!1,this.#e=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.changed(),await this.#a(t)}async#a(t){let e=!1,s=async()=>{e||(e=!0,await this.#g().finally(()=>e=!1))},r=setInterval(()=>{s()},1e3);try{await this.#d(t)}catch(o){this.#l(o)}finally{clearInterval(r)}this.ended=performance.now(),this.changed();let i=this.state==="cancelled"||this.state==="truncated";await this.#g(i?5:1),this.state==="unproved"&&this.#f(),this.state==="truncated"&&this.#$(),this.changed()}#l(t){this.#o?this.state="cancelled":this.problem?this.state="failed":this.state==="waiting"?(this.state="failed",this.problem={title:"The server cannot be reached",detail:String(t)}):(this.state="truncated",this.why="the connection ended before the answer did")}async#d(t){let e={headers:this.asked.headers,signal:this.#e.signal},s=await v(t,e);if(this.status=s.status,!s.ok){this.problem=await T(s),this.state="failed";return}this.state="running",this.stream=s.headers.get("Rowstream-Stream")??"",this.#i=s.headers.get("Rowstream-Tag")??"",this.timing=ms(s.headers.get("Server-Timing")),this.changed(),await this.#p(s),this.#m(s)}async#p(t){let e=t.body?.getReader();if(!e)return;let s=new TextDecoder,r=performance.now();for(;;){let{done:i,value:o}=await e.read();if(i)break;this.bytes+=o.byteLength,this.asked.format!=="arrow"&&this.#c(s.decode(o,{stream:!0})),this.limit>0&&await this.#b(o.byteLength),performance.now()-r>us&&(this.changed(),await new Promise(a=>setTimeout(a)),r=performance.now())}}#c(t){if(!this.isRows){this.text.length<Ce&&(this.text+=t.slice(0,Ce-this.text.length)),this.#t=(this.#t+t).slice(-ps),this.changed();return}let e=(this.#r+t).split(`
`);this.#r=e.pop()??"";for(let s of e)s&&this.#h(s);this.changed()}#h(t){if(this.#i&&t.startsWith(`{"$rowstream":"${this.#i}",`)){this.#u(JSON.parse(t));return}this.firstRow??=performance.now()-this.started,this.rows.push(t)}#u({end:t,mark:e,error:s}){let r=t?.next??e?.next;r&&(this.mark={next:r,rows:this.rows.total}),t&&(this.#s=t),s&&(this.problem=s)}#m(t){let e=`{"$rowstream":"${this.#i}","end":`;if(this.problem)this.state="failed";else if(this.#s||this.#i&&this.#t.includes(e)){let s=this.rows.total-this.#n,r=!this.#s||this.#s.rows===s;this.state=r?"complete":"truncated",r||(this.why=`${s} ${N(s,"row")} arrived, and the server sent ${this.#s?.rows}`)}else if(this.#i)this.state="truncated",this.why="it ended without the record of its end";else{let s=t.headers.has("Content-Length")||t.status===204;this.state=s?"complete":"unproved"}}#$(){this.report?.error&&(this.why=`the server says: ${this.report.state}`,this.problem=this.report.error)}#f(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`):this.report.bytes===this.bytes&&(this.state="complete"))}async#g(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await v(new URL(`streams/${this.stream}`,E));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#b(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#e.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(r=>setTimeout(r,Math.min(s,200)))}}};function ms(n){return(n??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function G({title:n,status:t,code:e,detail:s,hint:r,sqlstate:i}){return l`<div class="problem" role="alert">
    <h2>${t?l`<span>${t}</span>`:d} ${n??e??"It failed"}</h2>
    ${s?l`<p>${s}</p>`:d} ${r?l`<p class="hint">${r}</p>`:d}
    <p class="quiet">
      ${e?l`<a href=${new URL(`errors/${e}`,E).href} target="_blank" rel="noreferrer">What ${e} means</a>`:d}
      ${i?l` SQLSTATE ${i}`:d}
    </p>
  </div>`}var Nt=class extends w{static{this.properties={request:{attribute:!1},statements:{state:!0},problem:{state:!0}}}constructor(){super(),this.statements=[]}createRenderRoot(){return this}async#t(){let t=this.request();if(t){this.problem=void 0;try{this.statements=await Oe(t)}catch(e){this.statements=[],this.problem=e instanceof Error?{title:"There is no plan",detail:e.message}:e}}}render(){return l`<details class="card plan">
      <summary>SQL and its plan</summary>
      <p>The SQL, and how the database would run it with these parameters. Nothing is run.</p>
      <div class="actions"><button type="button" @click=${()=>this.#t()}>Explain</button></div>
      <div role="status">
        ${this.statements.map(({name:t,sql:e,plan:s})=>l`<section aria-label=${t}>
            ${this.statements.length>1?l`<h2>${t}</h2>`:d}
            <pre tabindex="0" role="region" aria-label="SQL of ${t}">${e}</pre>
            <pre tabindex="0" role="region" aria-label="Plan of ${t}">${fs(s)}</pre>
          </section>`)}
      </div>
      ${this.problem?G(this.problem):d}
    </details>`}};async function Oe(n){let t=new URL(n.url);for(let s of["_end","_follow","_after"])t.searchParams.delete(s);t.searchParams.set("_format","json"),t.searchParams.set("_explain","1");let e=await v(t,{headers:n.headers});if(!e.ok)throw await T(e);return(await e.json()).statements}async function Le(n){let t=await Oe(n).catch(()=>[]),e=t.length===1?t[0].plan:[],s=/\brows=(\d+)/.exec(String(e[0]?.["QUERY PLAN"]))?.[1]??(e.length===1?e[0].rows:void 0);return s==null?void 0:Number(s)}function fs(n){let[t]=n;if(!t)return"";if("detail"in t&&"parent"in t)return Ue(n,0,"").join(`
`);let e=Object.keys(t),s=n.map(o=>e.map(a=>String(o[a]??"")));if(e.length===1)return s.join(`
`);let r=e.map((o,a)=>Math.max(o.length,...s.map(c=>c[a].length))),i=o=>o.map((a,c)=>a.padEnd(r[c])).join("  ").trimEnd();return[i(e),...s.map(i)].join(`
`)}function Ue(n,t,e){return n.filter(s=>s.parent===t).flatMap(s=>[e+String(s.detail),...Ue(n,s.id,`${e}  `)])}customElements.define("rs-plan",Nt);function Ne(n,t,e,s){let r=e==="ndjson"&&n.searchParams.has("_end"),i=s?{Authorization:"Bearer $TOKEN",...t}:t;return[{name:"curl",text:gs(n,i,e)},{name:"JavaScript",text:r?bs(n,i):$s(n,i)},{name:"Python",text:r?ys(n,i):ws(n,i)}]}var qe=n=>`'${n.replaceAll("'","'\\''")}'`;function gs(n,t,e){let s=Object.entries(t).map(([i,o])=>o.includes("$TOKEN")?`  -H "${i}: ${o}"`:`  -H ${qe(`${i}: ${o}`)}`),r=e==="arrow"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...s,...r,`  ${qe(n.href)}`].join(` \\
`)}function He(n){return Object.keys(n).length===0?"":`, { headers: { ${Object.entries(n).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: \`${s.replace("$TOKEN","${token}")}\``:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")} } }`}function $s(n,t){return`const response = await fetch(${JSON.stringify(n.href)}${He(t)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws if the answer is cut.
const text = await response.text();`}function bs(n,t){return`const response = await fetch(${JSON.stringify(n.href)}${He(t)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("the answer is not whole");`}function De(n){return Object.keys(n).length===0?"":`, headers={${Object.entries(n).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: f"${s.replace("$TOKEN","{token}")}"`:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")}}`}function ws(n,t){return`import requests

response = requests.get(${JSON.stringify(n.href)}${De(t)})
response.raise_for_status()
body = response.content  # it raises if the answer is cut`}function ys(n,t){return`import json, requests

end = None
with requests.get(${JSON.stringify(n.href)}${De(t)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("the answer is not whole")`}var Ht=class extends P{render(t){return y}update(t,[e]){return Object.assign(t.element.style,e),y}},R=U(Ht);var vs=250,_s=/^process_resident_memory_bytes (\S+)$/m,Dt=class extends w{static{this.properties={request:{attribute:!1},sides:{state:!0},rows:{state:!0},problem:{state:!0},isRunning:{state:!0}}}#t=new AbortController;constructor(){super(),this.sides=[],this.rows=0,this.isRunning=!1}createRenderRoot(){return this}disconnectedCallback(){super.disconnectedCallback(),this.#t.abort()}async#e(){let t=this.request();if(!(!t||this.isRunning)){this.isRunning=!0,this.sides=[],this.problem=void 0,this.#t=new AbortController;try{for(let e of[this.#n,this.#r])this.sides=[...this.sides,await this.#i(e,t)]}catch(e){let s=this.#t.signal.aborted?"Stopped":"The comparison failed";this.problem=e instanceof Error?{title:s,detail:e.message}:e}this.isRunning=!1}}async#i(t,e){let s=0,r=async()=>{let o=await v(new URL("metrics",E)).catch(()=>{}),a=o?.ok?_s.exec(await o.text()):null;s=Math.max(s,Number(a?.[1]??0))};await r();let i=setInterval(()=>{r()},vs);try{return{...await t(e),server:s}}finally{clearInterval(i)}}#n=async({url:t,headers:e})=>{let s=0,r=new z({url:je(t,"ndjson"),headers:e,format:"ndjson"},()=>{s=Math.max(s,r.rows.text)});if(this.#t.signal.addEventListener("abort",()=>r.cancel()),await r.start(),r.problem)throw r.problem;if(r.state!=="complete"&&r.state!=="unproved")throw new Error(r.why||"It was stopped.");return this.rows=r.rows.total,{name:"As rows come",firstRow:r.firstRow??r.elapsed,whole:r.elapsed,held:s}};#r=async({url:t,headers:e})=>{let s=performance.now(),r=await v(je(t,"json"),{headers:e,signal:this.#t.signal});if(!r.ok)throw await T(r);let i=await r.text();JSON.parse(i);let o=performance.now()-s;return{name:"Read whole, then parsed",firstRow:o,whole:o,held:i.length}};render(){return l`<details class="card compare">
      <summary>Compare with reading it whole</summary>
      <p>
        Reads the answer twice: as its rows come, and as most clients do, whole and then parsed. The second holds all of
        it in this tab.
      </p>
      <div class="actions">
        <button
          type="button"
          class=${this.isRunning?"stop":""}
          @click=${()=>this.isRunning?this.#t.abort():this.#e()}
        >
          ${this.isRunning?"Stop":"Compare"}
        </button>
        <span class="quiet" role="status">
          ${this.isRunning?"Reading …":this.sides.length===2?`${g(this.rows)} ${N(this.rows,"row")}, twice`:""}
        </span>
      </div>
      ${this.problem?G(this.problem):d} ${this.sides.length?this.#s():d}
    </details>`}#s(){let t=(e,s,r)=>{let i=Math.max(...this.sides.map(s),1e-9);return l`<tr>
        <th scope="row">${e}</th>
        ${this.sides.map(o=>l`<td>
            ${r(s(o))}
            <div class="bar" aria-hidden="true">
              <i class="database" ${R({flexGrow:String(s(o)/i)})}></i
              ><i ${R({flexGrow:String(1-s(o)/i)})}></i>
            </div>
          </td>`)}
      </tr>`};return l`<table>
      <thead>
        <tr>
          <td></td>
          ${this.sides.map(({name:e})=>l`<th scope="col">${e}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${t("First row after",({firstRow:e})=>e,k)}
        ${t("All rows after",({whole:e})=>e,k)}
        ${t("Text held in this tab",({held:e})=>e,S)}
        ${this.sides.every(({server:e})=>e>0)?t("Memory of the server, at most",({server:e})=>e,S):d}
      </tbody>
    </table>`}};function je(n,t){let e=new URL(n);return e.searchParams.set("_format",t),e.searchParams.delete("_follow"),t!=="ndjson"&&e.searchParams.delete("_end"),e}customElements.define("rs-compare",Dt);var F=29,Ie=8,Ss=7.9,xs=26,jt=class extends w{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#e(){return this.querySelector(".scroller")}updated(){let t=this.#e;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#e,[s,r]=[e?.scrollTop??0,e?.clientHeight||600],i=Math.max(0,Math.min(Math.floor(s/F),this.rows.length)-Ie),o=Math.min(this.rows.length,Math.ceil((s+r)/F)+Ie),a=[];for(let h=i;h<o;h+=1){let u=this.rows.at(h);u&&a.push(this.#i(h,u,t))}let c=[g(this.rows.total).length,...t.map(([,{letters:h}])=>h)].map(h=>Math.round(h*Ss+xs)),p=`${c.reduce((h,u)=>h+u)}px`,m=t.map(([,h])=>h.isLong);return l`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#s}
    >
      <div class="sizer" ${R({height:`${(this.rows.length+1)*F}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${R({top:`${i*F}px`,minWidth:p,width:m.includes(!0)?"100%":p})}
        >
          <colgroup>
            ${c.map((h,u)=>l`<col ${R({width:m[u-1]?"":`${h}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="at">#</th>
              ${t.map(([h,{isNumber:u}])=>l`<th scope="col" class=${u?"number":""} title=${h}>${h}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${a}
          </tbody>
        </table>
      </div>
    </div>`}#i(t,e,s){if("from"in e){let i=`rows ${g(e.from)} to ${g(e.to)} have passed and aren't kept`;return l`<tr class="gap"><td colspan=${s.length+1}><span>${i}</span></td></tr>`}let r=new Map(ot(e.line));return l`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#n(t)}
      @dblclick=${()=>this.#r(t)}
    >
      <th scope="row" class="at">${g(e.row)}</th>
      ${s.map(([i])=>Es(r.get(i)))}
    </tr>`}#n(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#e;if(!e)return;let s=this.picked*F,r=e.scrollTop+e.clientHeight-3*F;s<e.scrollTop?e.scrollTop=s:s>r&&(e.scrollTop+=s-r)}#r(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#s(t){let e=Math.floor((this.#e?.clientHeight??0)/F)-2,r={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#r(this.picked);else if(r!==void 0)this.#n(Math.max(-1,this.picked)+r);else return;t.preventDefault()}};function Es(n){if(n===void 0)return l`<td></td>`;let{kind:t,text:e}=Pe(n),s=e.length>300?`${e.slice(0,300)}…`:e;return l`<td class=${t} title=${e.length>30?s:d}>${s}</td>`}customElements.define("rs-table",jt);var at=[0,4e6,1e6,25e4,5e4,1e4],ks=1e3,Rs=["pool","database","encode","client"],Be={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},As={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},It=class extends w{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=new Set;#e=!1;#i=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#n()}disconnectedCallback(){super.disconnectedCallback(),this.#n()}#n(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said="",this.#t.clear()}#r=()=>{this.#e||(this.#e=!0,requestAnimationFrame(()=>{this.#e=!1,this.requestUpdate()}))};get#s(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#o(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}#a(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of this.endpoint.params){let a=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(a));else{if(a==="")continue;if(o.in==="header")s[o.name]=a;else if(o.schema.type==="object")for(let[c,p]of new URLSearchParams(a))e.append(c,p);else for(let c of Ts(o,a))e.append(o.name,c)}}let r=this.#s;r&&e.set("_format",r),Me.includes(r)&&this.endpoint.controls.has("_end")&&e.set("_end","1"),this.#o&&e.set("_follow","1");let i=new URL(t.replace(/^\//,"./"),ye);return i.search=e.toString(),{url:i,headers:s}}#l(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let r=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${r&&`?${r}`}`)}#d(t){this.#t.delete(t)||this.#t.add(t),this.requestUpdate()}async#p(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#a();this.run=new z({url:e,headers:s,format:this.#s},this.#r),this.isFollowing=this.#o,this.run.isRows&&!this.#o&&this.endpoint.controls.has("_explain")&&this.#c(this.run),await this.#h(this.run,this.run.start())}async#c(t){t.expected=await Le(t.asked),this.#r()}async#h(t,e){if(t.limit=at[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t!==this.run)return;let{total:s}=t.rows;this.said=`${Be[t.state]}, ${g(s)} ${N(s,"row")}. ${t.problem?.detail??t.why}`}#u(t){this.querySelector("form button.run")?.focus(),this.#h(t,t.resume())}#m(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=at[this.speed]??0)}#$(){this.isPaused=!this.isPaused,this.#i=this.run?.rows.total??0}async#f(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{name:t,summary:e,needsToken:s}=this.endpoint;return l`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${Ps(t)}</h1>
        <button class="quiet" @click=${()=>this.#f("Link",location.href)}>Copy link</button>
      </header>
      ${e?l`<p class="summary">${e}</p>`:d}
      ${s&&!x()?l`<p class="note">This endpoint needs a token. Enter yours at the top of the page.</p>`:d}
      ${this.#g()} ${this.run?this.#y(this.run):d} ${this.#E()}
      ${this.#k()} ${this.#R()} ${this.#A()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#g(){let{params:t,formats:e,controls:s}=this.endpoint,r=this.run?.isRunning??!1;return l`<form class="card" @submit=${this.#p}>
      ${t.length?l`<div class="fields">${Re(t,i=>i.name,i=>this.#b(i))}</div>`:l`<p class="quiet">This endpoint has no parameters.</p>`}
      <div class="actions">
        ${e.length>1?l`<label class="inline"
              ><span>Format</span>
              <select @change=${i=>this.#l("_format",i.target.value)}>
                ${e.map(i=>l`<option value=${i} ?selected=${i===this.#s}>
                    ${As[i]??i}
                  </option>`)}
              </select></label
            >`:d}
        ${s.has("_follow")?l`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${rt(this.#o)}
                @change=${i=>this.#l("_follow",i.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:d}
        <span class="grow"></span>
        <button
          type=${r?"button":"submit"}
          class=${r?"stop":"run"}
          @click=${()=>r&&this.run?.cancel()}
        >
          ${r?"Cancel":"Run"}
        </button>
        <button type="button" @click=${this.#T} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#b(t){let{name:e,schema:s,required:r}=t,i=`param-${e}`,o=this.query.get(e)??"",a=s.default===void 0||s.default===null?"":String(s.default),c=$=>{let _=$.target;_.type==="text"&&this.#t.add(e),this.#l(e,_.value)},p=Ms(s,o),m=this.#t.has(e)?"text":p??"text",h=m==="text",u=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),f=u&&s.type!=="array";return l`<div class="field">
      <label for=${i}
        >${e}${r?l`<span class="required" title="required">*</span>`:d}
        <span class="type">${st(s)}</span></label
      >
      ${f?l`<select id=${i} ?required=${r} aria-describedby="${i}-more" @change=${c}>
            <option value="" ?selected=${o===""}>${a||(r?"choose":"not given")}</option>
            ${u.map($=>l`<option value=${String($)} ?selected=${o===String($)}>${$}</option>`)}
          </select>`:l`<input
            id=${i}
            type=${m}
            step=${s.format==="date-time"?"1":d}
            .value=${rt(h?o:o.replace(/Z$/,""))}
            ?required=${r}
            placeholder=${a||Cs(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${i}-more"
            @input=${c}
          />`}
      <small id="${i}-more">${Os(t,h,a)}</small>
      ${p?l`<button type="button" class="link" @click=${()=>this.#d(e)}>
            ${h?"Use the picker":"Write as text"}<span class="spoken"> for ${e}</span>
          </button>`:d}
    </div>`}#y(t){let e=t.elapsed,{total:s}=t.rows,r=t.isRunning&&(t.expected??0)>s;return l`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${Be[t.state]}</span>
        ${t.isRows?Y(N(s,"row"),g(s)):d}
        ${r?Y("expected by the planner",`of some ${g(t.expected)}`):d}
        ${s>=ks?Y("rows/s",g(s/e*1e3)):d}
        ${Y("received",S(t.bytes))}
        ${Y("time",k(e))}
        ${t.firstRow===void 0?d:Y("first row",k(t.firstRow))}
        <span class="grow"></span>
        ${this.#v(t)}
      </div>
      ${t.why?l`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:d}
      ${t.state==="unproved"?l`<p class="note">
            We can't tell if this is the whole answer: it was compressed on its way, and its format has no record at its
            end. NDJSON has one.
          </p>`:d}
      ${t.problem?G(t.problem):d} ${Ls(t)} ${this.#S(t)}
      <div class="progress reading">${this.#_(t)}</div>
    </section>`}#v(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return l`${t.isRunning&&t.isRows?l`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#$}>
            ${this.isPaused?`Go on (${g(t.rows.total-this.#i)} new)`:"Pause"}
          </button>`:d}
      ${e?l`<button class="run" @click=${()=>this.#u(t)}>
            Resume after row ${g(t.mark.rows)}
          </button>`:d}`}#_(t){return l`${t.rows.total?l`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${rt(this.isFollowing)}
              @change=${e=>this.isFollowing=e.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:d}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${at.length-1}
          .value=${rt(String(this.speed))}
          aria-valuetext=${Fe(this.speed)}
          @input=${this.#m}
        /><output>${Fe(this.speed)}</output></label
      >`}#S(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?l`<p class="empty">There are no rows.</p>`:d;let s=this.isPaused?this.#i:t.rows.total;return l`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#x}
      ></rs-table>`}if(t.asked.format==="arrow")return l`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return d;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return l`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?d:l`<p class="quiet">This is the beginning of ${S(t.bytes)}.</p>`}`}#x(t){let{row:e,line:s}=t.detail,r=this.querySelector("dialog")??document.createElement("dialog");r.replaceChildren(),r.ariaLabel=`Row ${e}`;let i=document.createElement("h2");i.textContent=`Row ${g(e)}`;let o=document.createElement("dl");for(let[c,p]of ot(s)){let[m,h]=[document.createElement("dt"),document.createElement("dd")];[m.textContent,h.textContent]=[c,p],o.append(m,h)}let a=document.createElement("button");a.textContent="Close",a.onclick=()=>r.close(),r.append(i,o,a),this.append(r),r.showModal()}#E(){let{url:t,headers:e}=this.#a(),s=Ne(t,e,this.#s,x()!==""),{name:r,text:i}=s[this.language];return l`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${s.map(({name:o},a)=>l`<button
            class="tab"
            aria-pressed=${a===this.language}
            @click=${()=>this.language=a}
          >
            ${o}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#f(r,i)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${r}>${i}</pre>
    </section>`}#w=()=>this.querySelector("form")?.reportValidity()?this.#a():void 0;#k(){return this.endpoint.controls.has("_explain")?qt(this.endpoint.path,l`<rs-plan .request=${this.#w}></rs-plan>`):d}#R(){let{formats:t}=this.endpoint;return!t.includes("ndjson")||!t.includes("json")?d:qt(this.endpoint.path,l`<rs-compare .request=${this.#w}></rs-compare>`)}#A(){let{columns:t}=this.endpoint;return t.length===0?d:l`<details class="card">
      <summary>${t.length} ${N(t.length,"column")}</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>l`<dt>${e}</dt><dd>${st(s)}</dd>`)}
      </dl>
    </details>`}#T=async()=>{let t=this.#w();if(!t)return;let{url:e,headers:s}=t;e.searchParams.delete("_end"),e.searchParams.delete("_follow");let r=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",r);let i=document.createElement("a");if(i.download=`${r}.${this.#s||"txt"}`,i.href=e.href,x()||Object.keys(s).length>0){this.said="Downloading";try{let o=await v(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);i.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}i.click(),this.said=`${i.download} is downloaded by the browser`}};function Ts(n,t){return n.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function Ps(n){return n.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?l`<em>${t}</em>`:t)}function Cs({schema:n,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return n.type==="array"?"1,2,3":e[n.format??""]??(t?"":"not given")}function Ms({format:n},t){if(n==="date"&&/^(\d{4}-\d\d-\d\d)?$/.test(t))return"date";if(n==="date-time"&&/^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?)?$/.test(t))return"datetime-local"}function Os({schema:n,in:t,name:e,description:s=""},r,i){let o=[n.minimum===void 0?"":`from ${n.minimum}`,n.maximum===void 0?"":`to ${n.maximum}`],a=t==="query"?"":t==="path"?"in the path":`header ${e}`,c=i&&!r?`${i} unless given`:"",p=n.format!=="date-time"?"":r?"UTC if it has no offset":"UTC";return[s,o.filter(Boolean).join(" "),p,c,a].filter(Boolean).join(" · ")}function Y(n,t){return l`<span class="fact"><b>${t}</b> <span>${n}</span></span>`}var Fe=n=>at[n]?`${S(at[n])}/s`:"full speed";function Ls(n){let t=Object.entries(n.report?.ms??{}),e=(t.length?t:n.timing).filter(([o,a])=>Rs.includes(o)&&a>=1),s=e.reduce((o,[,a])=>o+a,0),r=n.report&&n.isRunning?`The server has sent ${S(n.report.bytes)}.`:"";if(s===0)return r?l`<p class="quiet phases">${r}</p>`:d;let i=l`<div class="bar" aria-hidden="true">
    ${e.map(([o,a])=>l`<i class=${o} ${R({flexGrow:String(a/s)})}></i>`)}
  </div>`;return l`<div class="phases">
    ${e.length>1?i:d}
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([o,a])=>l`<span class="key ${o}">${o} ${k(a)}</span> `)} ${r}
    </p>
  </div>`}customElements.define("rs-endpoint",It);var Us=2e3,qs=15*6e4,Ns=2*6e4,Hs=5,Ve="rowstream_request_duration_seconds_bucket",lt=["pool","database","encode","client"],b=[],We=0,Ds=/^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections|host_in_flight|request_duration_seconds_bucket)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;function js(n){let t=new Map;for(let e of n.split(`
`)){let s=Ds.exec(e);if(!s)continue;let[r,i,o]=[s[1],s.at(-2)??"",Number(s.at(-1))],a=t.get(r)??new Map;t.set(r,a.set(i,o))}return t}function Is({series:n},{at:t,values:e}){let s=new Map;return e.forEach((r,i)=>{let{name:o,labels:a}=n[i];r!==null&&s.set(o,(s.get(o)??new Map).set(a,r))}),{at:t,isWhole:!1,metrics:s}}function Je(n){let t=b.at(-1)?.at??0;b.at(-1)?.metrics.delete(Ve),b.push(...n.filter(({at:e})=>e>t)),b=b.filter(({at:e})=>e>b.at(-1).at-qs)}var A=(n,t)=>new RegExp(`(?:^|,)${t}="((?:[^"\\\\]|\\\\.)*)"`).exec(n)?.[1]??"";function W(n,t,e=()=>!0){let s=0;for(let[r,i]of n.metrics.get(t)??[])e(r)&&(s+=i);return s}function _t(n,t,e=()=>!0){let s=b[n],r=b.slice(Math.max(0,n-Hs),n).find(e)??s,i=(s.at-r.at)/1e3;return i>0?Math.max(0,t(s)-t(r))/i:0}var Bt=class extends w{static{this.properties={failure:{state:!0},refused:{state:!0},streams:{state:!0}}}#t=0;#e=!1;createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#i().then(()=>this.#n()),this.#t=setInterval(()=>{this.#n()},Us)}disconnectedCallback(){super.disconnectedCallback(),clearInterval(this.#t)}async#i(){this.#e=!0;let t=await nt(`history?after=${b.at(-1)?.at??0}`).catch(()=>{});t&&(We=t.now-Date.now(),Je(t.moments.map(e=>Is(t,e)))),this.#e=!1}async#n(){if(!this.#e){this.#e=!0;try{let t=await v(new URL("metrics",E),{headers:{Accept:"text/plain"}});if(!t.ok){this.failure=await T(t);return}let e=js(await t.text());Je([{at:Date.now()+We,isWhole:!0,metrics:e}]),this.streams=await nt("streams").catch(()=>{}),this.failure=void 0}catch(t){this.failure={title:"The server cannot be reached",detail:String(t)}}finally{this.#e=!1}this.requestUpdate()}}async#r(t){let e=await v(new URL(`streams/${t}`,E),{method:"DELETE"}),s=e.ok||e.status===404||e.status===409;this.refused=s?void 0:await T(e),await this.#n(),await this.updateComplete,wt()}render(){return l`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">The last 15 minutes, and now; asked for every two seconds.</p>
      ${this.failure?this.#s(this.failure):d} ${b.length?this.#a():d}
      ${this.refused?this.#s(this.refused):d}
      ${this.streams?.streams.length?this.#o(this.streams):d}
    </article>`}#s({status:t,title:e,detail:s}){let r=t===404?"With `admin_listen` this view works at that port only.":t===401||t===403?"Enter a token that [admin] names in rowstream.toml.":"";return l`<div class="card problem" role="alert">
      <h2>${t?l`<span>${t}</span>`:d} ${e}</h2>
      <p>${s}</p>
      <p class="hint">${r}</p>
    </div>`}#o({streams:t,more:e}){return l`<section class="card live" aria-label="Each stream in flight" tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Format</th>
            <th scope="col" class="number">Runs for</th>
            <th scope="col" class="number">Rows</th>
            <th scope="col" class="number">Sent</th>
            <th scope="col">Where the time went</th>
            <th scope="col"><span class="quiet">Stop</span></th>
          </tr>
        </thead>
        <tbody>
          ${t.map(({id:s,endpoint:r,format:i,started:o,rows:a,bytes:c,ms:p})=>l`<tr>
              <th scope="row">${r}</th>
              <td>${i}</td>
              <td class="number">${k(Math.max(0,Date.now()-Date.parse(o)))}</td>
              <td class="number">${g(a)}</td>
              <td class="number">${S(c)}</td>
              <td>${Ke(lt.map(m=>(p[m]??0)/1e3))}</td>
              <td>
                <button class="stop" aria-label="Stop the stream ${s} of ${r}" @click=${()=>this.#r(s)}>
                  Stop
                </button>
              </td>
            </tr>`)}
        </tbody>
      </table>
      ${e?l`<p class="quiet">and ${g(e)} more</p>`:d}
    </section>`}#a(){let t=b.at(-1),e=p=>A(p,"endpoint")!=="/_rowstream/",s=p=>e(p)&&A(p,"outcome")==="complete",r=p=>e(p)&&A(p,"outcome")!=="complete",i=(p,m=e)=>h=>_t(h,u=>W(u,p,m)),o=p=>m=>W(b[m],p),a=p=>_t(p,m=>W(m,"process_cpu_seconds_total"))*100,c=W(t,"rowstream_permits_max");return l`<div class="charts">
        ${L("Streams in flight",o("rowstream_streams_running"),g,`of ${g(c)} at most`)}
        ${L("Rows per second",i("rowstream_rows_total"),g)}
        ${L("Sent per second",i("rowstream_sent_bytes_total"),S)}
        ${L("Requests per second",i("rowstream_requests_total",s),Wt,"that were complete")}
        ${L("Incomplete per second",i("rowstream_requests_total",r),Wt,"failed, cancelled or cut")}
        ${L("Memory",o("process_resident_memory_bytes"),S,"resident")}
        ${L("Processor",a,p=>`${p.toFixed(0)} %`,"of one core")}
        ${Ft(t,"rowstream_pool_used").map(Fs)} ${Ft(t,"rowstream_host_in_flight").map(Bs)}
      </div>
      ${Vs(t)}`}},Ft=(n,t)=>[...n.metrics.get(t)?.keys()??[]];function Bs(n){let t=e=>b[e].metrics.get("rowstream_host_in_flight")?.get(n)??0;return L(`Host ${A(n,"host")}`,t,g,`in flight, of ${A(n,"source")}`)}function Fs(n){let t=(r,i=b.length-1)=>b[i].metrics.get(r)?.get(n)??0,e=t("rowstream_pool_waiting"),s=`of ${t("rowstream_pool_max")}, ${e} waiting`;return L(`Pool of ${A(n,"source")}`,r=>t("rowstream_pool_used",r),g,s)}var Wt=n=>n<10?n.toFixed(1):g(n);function L(n,t,e,s=""){let r=b.map((h,u)=>t(u)),i=Math.max(...r,1e-9),o=b.at(-1).at,a=Math.max(Ns,o-b[0].at),c=h=>(200-200*(o-b[h].at)/a).toFixed(1),p=r.map((h,u)=>`${c(u)},${(46-h/i*42).toFixed(1)}`),m=`${c(0)},48 ${p.join(" ")} 200,48`;return l`<section class="card chart" aria-label=${n}>
    <h2>${n}</h2>
    <p><b>${e(r.at(-1)??0)}</b> <span class="quiet">${s}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${e(i)}">
      ${de`<polygon points=${m}></polygon><polyline points=${p.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${e(Math.max(...r))}</p>
  </section>`}function Ws(n,t){let e=[...n.metrics.get(Ve)??[]].filter(([r])=>A(r,"endpoint")===t).map(([r,i])=>({bound:Number(A(r,"le").replace("+Inf","Infinity")),count:i})).sort((r,i)=>r.bound-i.bound),s=e.at(-1)?.count??0;return s?e.find(({count:r})=>r>=.95*s)?.bound:void 0}var Js=n=>n===void 0?"":n===1/0?"longer":k(n*1e3);function Vs(n){let t=Ft(n,"rowstream_streams_running"),e=b.length-1,s=i=>i.isWhole,r=t.map(i=>{let o=A(i,"endpoint"),a=h=>A(h,"endpoint")===o,c=h=>_t(e,u=>W(u,h,a),s),p=h=>u=>a(u)&&A(u,"phase")===h,m=lt.map(h=>_t(e,u=>W(u,"rowstream_phase_seconds_total",p(h)),s));return{path:o,running:W(n,"rowstream_streams_running",a),of:c,phases:m,most:Ws(n,o)}});return r.sort((i,o)=>(o.most??-1)-(i.most??-1)),l`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col" class="number">95 % within</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${r.map(({path:i,running:o,of:a,phases:c,most:p})=>l`<tr>
            <th scope="row"><a href="#/endpoints${i}">${i}</a></th>
            <td class="number">${g(o)}</td>
            <td class="number">${Wt(a("rowstream_requests_total"))}</td>
            <td class="number">${g(a("rowstream_rows_total"))}</td>
            <td class="number">${Js(p)}</td>
            <td>${Ke(c)}</td>
          </tr>`)}
      </tbody>
    </table>
    <p class="quiet">${lt.map(i=>l`<span class="key ${i}">${i}</span>`)}</p>
  </section>`}function Ke(n){let t=n.reduce((s,r)=>s+r,0);if(t===0)return d;let e=n.map((s,r)=>`${lt[r]} ${k(s*1e3)}`).join(", ");return l`<div class="bar" role="img" aria-label=${e}>
    ${n.map((s,r)=>l`<i class=${lt[r]} ${R({flexGrow:String(s/t)})}></i>`)}
  </div>`}customElements.define("rs-live",Bt);var ze="rowstream.theme",Jt=12,Vt=["auto","light","dark"],Kt=class extends w{constructor(){super();this.takesTokens=!1;this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(ze)??"auto",this.#t(),this.#r(),addEventListener("hashchange",()=>{this.#t(),this.updateComplete.then(wt)}),this.#e()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=Lt(e)||"/endpoints",this.requestUpdate()}async#e(){try{let e=await nt("openapi.json");this.takesTokens=be(e),this.endpoints=we(e),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#i(){return this.endpoints?.find(({name:e})=>this.path===`/endpoints${e}`)}#n(){this.theme=Vt[(Vt.indexOf(this.theme)+1)%Vt.length],localStorage.setItem(ze,this.theme),this.#r()}#r(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#i;document.title=e?`${e.name} · Rowstream`:"Rowstream console"}render(){let e=this.#i;return l`<a class="skip" href="#main" @click=${this.#m}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${Ks} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path==="/live"?d:"page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path==="/live"?"page":d}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#n}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#c}>${this.#l()}</button>
      </header>
      ${this.path==="/live"?l`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`:l`<div class="page ${e?"has-chosen":""}">
            <nav aria-label="Endpoints">${this.#s()}</nav>
            <main id="main" tabindex="-1">
              ${e?l`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#d()}
            </main>
          </div>`}
      ${this.#h()}`}#s(){if(this.failure)return l`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#e()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({name:r,summary:i})=>e.every(o=>`${r} ${i}`.toLowerCase().includes(o)));return l`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${r=>this.search=r.target.value}
      />
      <ul>
        ${s.map(({path:r,name:i,summary:o,needsToken:a})=>l`<li>
            <a href="#/endpoints${r}" aria-current=${this.path===`/endpoints${i}`?"page":d}>
              <code>${i}</code>${a?l`<span class="lock" title="needs a token">token</span>`:d}
              ${o?l`<small title=${o}>${o}</small>`:d}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?this.#o():d}
      ${this.endpoints&&this.takesTokens&&!this.#a?l`<p class="quiet">
            ${x()?"Your token opens no endpoint: it may be wrong, or have expired.":"Endpoints that need a token are listed once you have entered one."}
          </p>
          <button class="run" @click=${this.#c}>Enter a token</button>`:d}`}#o(){return l`<p class="quiet">
      ${this.search?"No endpoint has these words in its path or summary.":this.takesTokens?"No endpoint is open to everybody.":"This server has no endpoints."}
    </p>`}get#a(){return x()!==""&&(this.endpoints??[]).some(({needsToken:e})=>e)}#l(){return x()?!this.endpoints||this.#a?"Token ✓":"Token ✗":"Token"}#d(){let e=this.endpoints&&this.path!=="/endpoints";return l`<div class="welcome">
      <h1>${e?"There is no such endpoint":"Try an endpoint"}</h1>
      ${e?l`<p>It may need a token, or it may be gone. Choose another one.</p>`:l`<ol>
            <li>Choose an endpoint.</li>
            <li>Fill in its parameters and press <b>Run</b>. Rows appear as the database sends them.</li>
            <li>Copy the same request for curl, JavaScript or Python.</li>
          </ol>`}
      ${this.endpoints?.length?this.#p(this.endpoints):d}
    </div>`}#p(e){return l`<ul class="offers">
        ${e.slice(0,Jt).map(({path:s,name:r,summary:i,params:o})=>l`<li>
            <a class="card" href="#/endpoints${s}">
              <code>${r}</code>
              <span>${i}</span>
              <small>${o.map(({name:a})=>a).join(", ")}</small>
            </a>
          </li>`)}
      </ul>
      ${e.length>Jt?l`<p>The list has ${e.length-Jt} more.</p>`:d}`}#c(){this.querySelector("dialog.token").showModal()}#h(){return l`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#u}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${x()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#u(e){e.preventDefault(),ve(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#e(),this.requestUpdate()}#m(e){e.preventDefault(),this.querySelector("main").focus()}},Ks=l`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",Kt);
/*! Bundled license information:

@lit/reactive-element/css-tag.js:
  (**
   * @license
   * Copyright 2019 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

@lit/reactive-element/reactive-element.js:
lit-html/lit-html.js:
lit-element/lit-element.js:
lit-html/directive.js:
lit-html/directives/repeat.js:
  (**
   * @license
   * Copyright 2017 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/is-server.js:
  (**
   * @license
   * Copyright 2022 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directive-helpers.js:
lit-html/directives/live.js:
  (**
   * @license
   * Copyright 2020 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directives/keyed.js:
  (**
   * @license
   * Copyright 2021 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)
*/
