var gt=globalThis,$t=gt.ShadowRoot&&(gt.ShadyCSS===void 0||gt.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,fe=Symbol(),me=new WeakMap,wt=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==fe)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if($t&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=me.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&me.set(e,t))}return t}toString(){return this.cssText}},ge=n=>new wt(typeof n=="string"?n:n+"",void 0,fe);var we=(n,t)=>{if($t)n.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),r=gt.litNonce;r!==void 0&&s.setAttribute("nonce",r),s.textContent=e.cssText,n.appendChild(s)}},jt=$t?n=>n:n=>n instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return ge(e)})(n):n;var{is:ys,defineProperty:vs,getOwnPropertyDescriptor:_s,getOwnPropertyNames:Rs,getOwnPropertySymbols:xs,getPrototypeOf:ks}=Object,bt=globalThis,$e=bt.trustedTypes,Ss=$e?$e.emptyScript:"",Es=bt.reactiveElementPolyfillSupport,rt=(n,t)=>n,Dt={toAttribute(n,t){switch(t){case Boolean:n=n?Ss:null;break;case Object:case Array:n=n==null?n:JSON.stringify(n)}return n},fromAttribute(n,t){let e=n;switch(t){case Boolean:e=n!==null;break;case Number:e=n===null?null:Number(n);break;case Object:case Array:try{e=JSON.parse(n)}catch{e=null}}return e}},ye=(n,t)=>!ys(n,t),be={attribute:!0,type:String,converter:Dt,reflect:!1,useDefault:!1,hasChanged:ye};Symbol.metadata??=Symbol("metadata"),bt.litPropertyMetadata??=new WeakMap;var L=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=be){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),r=this.getPropertyDescriptor(t,s,e);r!==void 0&&vs(this.prototype,t,r)}}static getPropertyDescriptor(t,e,s){let{get:r,set:i}=_s(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:r,set(o){let a=r?.call(this);i?.call(this,o),this.requestUpdate(t,a,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??be}static _$Ei(){if(this.hasOwnProperty(rt("elementProperties")))return;let t=ks(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(rt("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(rt("properties"))){let e=this.properties,s=[...Rs(e),...xs(e)];for(let r of s)this.createProperty(r,e[r])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,r]of e)this.elementProperties.set(s,r)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let r=this._$Eu(e,s);r!==void 0&&this._$Eh.set(r,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let r of s)e.unshift(jt(r))}else t!==void 0&&e.push(jt(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return we(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),r=this.constructor._$Eu(t,s);if(r!==void 0&&s.reflect===!0){let i=(s.converter?.toAttribute!==void 0?s.converter:Dt).toAttribute(e,s.type);this._$Em=t,i==null?this.removeAttribute(r):this.setAttribute(r,i),this._$Em=null}}_$AK(t,e){let s=this.constructor,r=s._$Eh.get(t);if(r!==void 0&&this._$Em!==r){let i=s.getPropertyOptions(r),o=typeof i.converter=="function"?{fromAttribute:i.converter}:i.converter?.fromAttribute!==void 0?i.converter:Dt;this._$Em=r;let a=o.fromAttribute(e,i.type);this[r]=a??this._$Ej?.get(r)??a,this._$Em=null}}requestUpdate(t,e,s,r=!1,i){if(t!==void 0){let o=this.constructor;if(r===!1&&(i=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??ye)(i,e)||s.useDefault&&s.reflect&&i===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:r,wrapped:i},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),i!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),r===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[r,i]of this._$Ep)this[r]=i;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[r,i]of s){let{wrapped:o}=i,a=this[r];o!==!0||this._$AL.has(r)||a===void 0||this.C(r,void 0,i,a)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};L.elementStyles=[],L.shadowRootOptions={mode:"open"},L[rt("elementProperties")]=new Map,L[rt("finalized")]=new Map,Es?.({ReactiveElement:L}),(bt.reactiveElementVersions??=[]).push("2.1.2");var Bt=globalThis,ve=n=>n,yt=Bt.trustedTypes,_e=yt?yt.createPolicy("lit-html",{createHTML:n=>n}):void 0,Ft="$lit$",U=`lit$${Math.random().toFixed(9).slice(2)}$`,Wt="?"+U,As=`<${Wt}>`,H=document,ot=()=>H.createComment(""),at=n=>n===null||typeof n!="object"&&typeof n!="function",zt=Array.isArray,Ae=n=>zt(n)||typeof n?.[Symbol.iterator]=="function",Ht=`[ 	
\f\r]`,it=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,Re=/-->/g,xe=/>/g,j=RegExp(`>|${Ht}(?:([^\\s"'>=/]+)(${Ht}*=${Ht}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),ke=/'/g,Se=/"/g,Te=/^(?:script|style|textarea|title)$/i,Gt=n=>(t,...e)=>({_$litType$:n,strings:t,values:e}),c=Gt(1),Pe=Gt(2),jn=Gt(3),v=Symbol.for("lit-noChange"),h=Symbol.for("lit-nothing"),Ee=new WeakMap,D=H.createTreeWalker(H,129);function Ce(n,t){if(!zt(n)||!n.hasOwnProperty("raw"))throw Error("invalid template strings array");return _e!==void 0?_e.createHTML(t):t}var Oe=(n,t)=>{let e=n.length-1,s=[],r,i=t===2?"<svg>":t===3?"<math>":"",o=it;for(let a=0;a<e;a++){let l=n[a],u,p,d=-1,m=0;for(;m<l.length&&(o.lastIndex=m,p=o.exec(l),p!==null);)m=o.lastIndex,o===it?p[1]==="!--"?o=Re:p[1]!==void 0?o=xe:p[2]!==void 0?(Te.test(p[2])&&(r=RegExp("</"+p[2],"g")),o=j):p[3]!==void 0&&(o=j):o===j?p[0]===">"?(o=r??it,d=-1):p[1]===void 0?d=-2:(d=o.lastIndex-p[2].length,u=p[1],o=p[3]===void 0?j:p[3]==='"'?Se:ke):o===Se||o===ke?o=j:o===Re||o===xe?o=it:(o=j,r=void 0);let f=o===j&&n[a+1].startsWith("/>")?" ":"";i+=o===it?l+As:d>=0?(s.push(u),l.slice(0,d)+Ft+l.slice(d)+U+f):l+U+(d===-2?a:f)}return[Ce(n,i+(n[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},lt=class n{constructor({strings:t,_$litType$:e},s){let r;this.parts=[];let i=0,o=0,a=t.length-1,l=this.parts,[u,p]=Oe(t,e);if(this.el=n.createElement(u,s),D.currentNode=this.el.content,e===2||e===3){let d=this.el.content.firstChild;d.replaceWith(...d.childNodes)}for(;(r=D.nextNode())!==null&&l.length<a;){if(r.nodeType===1){if(r.hasAttributes())for(let d of r.getAttributeNames())if(d.endsWith(Ft)){let m=p[o++],f=r.getAttribute(d).split(U),$=/([.?@])?(.*)/.exec(m);l.push({type:1,index:i,name:$[2],strings:f,ctor:$[1]==="."?_t:$[1]==="?"?Rt:$[1]==="@"?xt:F}),r.removeAttribute(d)}else d.startsWith(U)&&(l.push({type:6,index:i}),r.removeAttribute(d));if(Te.test(r.tagName)){let d=r.textContent.split(U),m=d.length-1;if(m>0){r.textContent=yt?yt.emptyScript:"";for(let f=0;f<m;f++)r.append(d[f],ot()),D.nextNode(),l.push({type:2,index:++i});r.append(d[m],ot())}}}else if(r.nodeType===8)if(r.data===Wt)l.push({type:2,index:i});else{let d=-1;for(;(d=r.data.indexOf(U,d+1))!==-1;)l.push({type:7,index:i}),d+=U.length-1}i++}}static createElement(t,e){let s=H.createElement("template");return s.innerHTML=t,s}};function B(n,t,e=n,s){if(t===v)return t;let r=s!==void 0?e._$Co?.[s]:e._$Cl,i=at(t)?void 0:t._$litDirective$;return r?.constructor!==i&&(r?._$AO?.(!1),i===void 0?r=void 0:(r=new i(n),r._$AT(n,e,s)),s!==void 0?(e._$Co??=[])[s]=r:e._$Cl=r),r!==void 0&&(t=B(n,r._$AS(n,t.values),r,s)),t}var vt=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,r=(t?.creationScope??H).importNode(e,!0);D.currentNode=r;let i=D.nextNode(),o=0,a=0,l=s[0];for(;l!==void 0;){if(o===l.index){let u;l.type===2?u=new K(i,i.nextSibling,this,t):l.type===1?u=new l.ctor(i,l.name,l.strings,this,t):l.type===6&&(u=new kt(i,this,t)),this._$AV.push(u),l=s[++a]}o!==l?.index&&(i=D.nextNode(),o++)}return D.currentNode=H,r}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},K=class n{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,r){this.type=2,this._$AH=h,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=r,this._$Cv=r?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=B(this,t,e),at(t)?t===h||t==null||t===""?(this._$AH!==h&&this._$AR(),this._$AH=h):t!==this._$AH&&t!==v&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):Ae(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==h&&at(this._$AH)?this._$AA.nextSibling.data=t:this.T(H.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,r=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=lt.createElement(Ce(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===r)this._$AH.p(e);else{let i=new vt(r,this),o=i.u(this.options);i.p(e),this.T(o),this._$AH=i}}_$AC(t){let e=Ee.get(t.strings);return e===void 0&&Ee.set(t.strings,e=new lt(t)),e}k(t){zt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,r=0;for(let i of t)r===e.length?e.push(s=new n(this.O(ot()),this.O(ot()),this,this.options)):s=e[r],s._$AI(i),r++;r<e.length&&(this._$AR(s&&s._$AB.nextSibling,r),e.length=r)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=ve(t).nextSibling;ve(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},F=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,r,i){this.type=1,this._$AH=h,this._$AN=void 0,this.element=t,this.name=e,this._$AM=r,this.options=i,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=h}_$AI(t,e=this,s,r){let i=this.strings,o=!1;if(i===void 0)t=B(this,t,e,0),o=!at(t)||t!==this._$AH&&t!==v,o&&(this._$AH=t);else{let a=t,l,u;for(t=i[0],l=0;l<i.length-1;l++)u=B(this,a[s+l],e,l),u===v&&(u=this._$AH[l]),o||=!at(u)||u!==this._$AH[l],u===h?t=h:t!==h&&(t+=(u??"")+i[l+1]),this._$AH[l]=u}o&&!r&&this.j(t)}j(t){t===h?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},_t=class extends F{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===h?void 0:t}},Rt=class extends F{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==h)}},xt=class extends F{constructor(t,e,s,r,i){super(t,e,s,r,i),this.type=5}_$AI(t,e=this){if((t=B(this,t,e,0)??h)===v)return;let s=this._$AH,r=t===h&&s!==h||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,i=t!==h&&(s===h||r);r&&this.element.removeEventListener(this.name,this,s),i&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},kt=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){B(this,t)}},Le={M:Ft,P:U,A:Wt,C:1,L:Oe,R:vt,D:Ae,V:B,I:K,H:F,N:Rt,U:xt,B:_t,F:kt},Ts=Bt.litHtmlPolyfillSupport;Ts?.(lt,K),(Bt.litHtmlVersions??=[]).push("3.3.3");var Ue=(n,t,e)=>{let s=e?.renderBefore??t,r=s._$litPart$;if(r===void 0){let i=e?.renderBefore??null;s._$litPart$=r=new K(t.insertBefore(ot(),i),i,void 0,e??{})}return r._$AI(n),r};var Vt=globalThis,y=class extends L{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=Ue(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return v}};y._$litElement$=!0,y.finalized=!0,Vt.litElementHydrateSupport?.({LitElement:y});var Ps=Vt.litElementPolyfillSupport;Ps?.({LitElement:y});(Vt.litElementVersions??=[]).push("4.2.2");function St(){document.activeElement===document.body&&document.querySelector("main")?.focus()}var Et="html";function At({name:n,schema:t}){return t.type==="object"?n.replace(/^_/,""):n}function Ie(n){return Object.keys(n.components?.securitySchemes??{}).length>0}var Cs=["_format","_end","_follow","_explain","_download","_sign","_signature"],{compare:Os}=new Intl.Collator("en",{numeric:!0}),Me=({name:n})=>n.replaceAll("/","	");function je(n){return Object.entries(n.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>Ls(n,t,e)).sort((t,e)=>Os(Me(t),Me(e)))}function Kt(n){try{return decodeURI(n)}catch{return n}}function Ls(n,t,e){let s=(e.parameters??[]).map(l=>{let u=Jt(n,l);return u.schema?u.schema.type!=="object"?u:{...u,schema:{...u.schema,format:"conditions"}}:{...u,schema:{format:"json"}}}),i=(s.find(l=>l.name==="_format")?.schema.enum??[]).map(String),o=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],a=o?Jt(n,o).properties:void 0;return{path:t,name:Kt(t),summary:e.summary??"",params:s.filter(l=>!qe(l)),options:s.filter(l=>qe(l)&&!Cs.includes(l.name)),controls:new Set(s.map(l=>l.name).filter(l=>l.startsWith("_"))),formats:i.filter(l=>l!==Et),hasPage:i.includes(Et),columns:Object.entries(a??{}).map(([l,u])=>({name:l,schema:Jt(n,u)})),needsToken:(e.security??[]).some(l=>Object.keys(l).length>0),takesPassword:(e.security??[]).some(l=>"basic"in l)}}function qe({name:n,schema:t}){return n.startsWith("_")&&t.type!=="object"}function Jt(n,t){let e=t.$ref;if(!e)return t;let s=n;for(let r of e.slice(2).split("/"))s=s[r];return s}var Ne={string:"text",date:"date","date-time":"timestamp","date-time-local":"timestamp without zone","time-local":"time",duration:"duration",uuid:"uuid",json:"json",conditions:"conditions"};function ct({type:n,format:t="",items:e,anyOf:s}){if(s)return ct(s[0]);let r=[n??"any"].flat()[0];return r==="array"?e?`${ct(e)}[]`:"list":Ne[t]??Ne[r]??r}var Yt="rowstream.token",k=new URL("./",location.href.split("#")[0]),De=new URL("../",k),E=()=>sessionStorage.getItem(Yt)??"";function He(n){n?sessionStorage.setItem(Yt,n):sessionStorage.removeItem(Yt)}function _(n,t={}){let e=new Headers(t.headers);return E()&&e.set("Authorization",`Bearer ${E()}`),fetch(n,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function C(n){try{return await n.json()}catch{return{status:n.status,title:n.statusText||`status ${n.status}`}}}async function ht(n,t={}){let e=await _(new URL(n,k),t);if(!e.ok)throw await C(e);return await e.json()}var M={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},N=n=>(...t)=>({_$litDirective$:n,values:t}),O=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:Us}=Le,Be=n=>n;var We=n=>n.strings===void 0,Fe=()=>document.createComment(""),Y=(n,t,e)=>{let s=n._$AA.parentNode,r=t===void 0?n._$AB:t._$AA;if(e===void 0){let i=s.insertBefore(Fe(),r),o=s.insertBefore(Fe(),r);e=new Us(i,o,n,n.options)}else{let i=e._$AB.nextSibling,o=e._$AM,a=o!==n;if(a){let l;e._$AQ?.(n),e._$AM=n,e._$AP!==void 0&&(l=n._$AU)!==o._$AU&&e._$AP(l)}if(i!==r||a){let l=e._$AA;for(;l!==i;){let u=Be(l).nextSibling;Be(s).insertBefore(l,r),l=u}}}return e},I=(n,t,e=n)=>(n._$AI(t,e),n),Ms={},Q=(n,t=Ms)=>n._$AH=t,ze=n=>n._$AH,Tt=n=>{n._$AR(),n._$AA.remove()};var Pt=N(class extends O{constructor(){super(...arguments),this.key=h}render(n,t){return this.key=n,t}update(n,[t,e]){return t!==this.key&&(Q(n),this.key=t),e}});var dt=N(class extends O{constructor(n){if(super(n),n.type!==M.PROPERTY&&n.type!==M.ATTRIBUTE&&n.type!==M.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!We(n))throw Error("`live` bindings can only contain a single expression")}render(n){return n}update(n,[t]){if(t===v||t===h)return t;let e=n.element,s=n.name;if(n.type===M.PROPERTY){if(t===e[s])return v}else if(n.type===M.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return v}else if(n.type===M.ATTRIBUTE&&e.getAttribute(s)===t+"")return v;return Q(n),t}});var Ge=(n,t,e)=>{let s=new Map;for(let r=t;r<=e;r++)s.set(n[r],r);return s},Qt=N(class extends O{constructor(n){if(super(n),n.type!==M.CHILD)throw Error("repeat() can only be used in text expressions")}dt(n,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let r=[],i=[],o=0;for(let a of n)r[o]=s?s(a,o):o,i[o]=e(a,o),o++;return{values:i,keys:r}}render(n,t,e){return this.dt(n,t,e).values}update(n,[t,e,s]){let r=ze(n),{values:i,keys:o}=this.dt(t,e,s);if(!Array.isArray(r))return this.ut=o,i;let a=this.ut??=[],l=[],u,p,d=0,m=r.length-1,f=0,$=i.length-1;for(;d<=m&&f<=$;)if(r[d]===null)d++;else if(r[m]===null)m--;else if(a[d]===o[f])l[f]=I(r[d],i[f]),d++,f++;else if(a[m]===o[$])l[$]=I(r[m],i[$]),m--,$--;else if(a[d]===o[$])l[$]=I(r[d],i[$]),Y(n,l[$+1],r[d]),d++,$--;else if(a[m]===o[f])l[f]=I(r[m],i[f]),Y(n,r[d],r[m]),m--,f++;else if(u===void 0&&(u=Ge(o,f,$),p=Ge(a,d,m)),u.has(a[d]))if(u.has(a[m])){let R=p.get(o[f]),J=R!==void 0?r[R]:null;if(J===null){let pe=Y(n,r[d]);I(pe,i[f]),l[f]=pe}else l[f]=I(J,i[f]),Y(n,r[d],J),r[R]=null;f++}else Tt(r[m]),m--;else Tt(r[d]),d++;for(;f<=$;){let R=Y(n,l[$+1]);I(R,i[f]),l[f++]=R}for(;d<=m;){let R=r[d++];R!==null&&Tt(R)}return this.ut=o,Q(n,l),v}});var qs=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),Ve=["B","KB","MB","GB","TB"],w=n=>qs.format(n),X=(n,t)=>n===1?t:`${t}s`;function S(n){let t=0;for(;n>=1e3&&t<Ve.length-1;)n/=1e3,t+=1;return`${n<10&&t>0?n.toFixed(1):n.toFixed(0)} ${Ve[t]}`}function A(n){if(n<1)return"< 1 ms";if(n<1e3)return`${n.toFixed(0)} ms`;if(n<6e4)return`${(n/1e3).toFixed(1)} s`;let t=Math.floor(n/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var x=class extends Error{constructor(e,s){let{code:r,hint:i,retry_after:o}=e,a=String(e.detail??`HTTP status ${s}, without a reason`);super(typeof r=="string"?`${r}: ${a}`:a);this.problem=e;this.name="RowstreamError";this.rows=0;this.detail=a,this.status=typeof e.status=="number"?e.status:s,this.retry=e.retry===!0,typeof r=="string"&&(this.code=r),typeof i=="string"&&(this.hint=i),typeof o=="number"&&(this.retryAfter=Math.max(0,o))}},W=class extends Error{constructor(e,{rows:s,cursor:r},i){super(`the stream is incomplete after ${s} rows: ${e}; ${r?"continue with the parameter _after and the error's cursor":"read it again from the start"}`,{cause:i});this.reason=e;this.name="IncompleteStream";this.rows=s,this.cursor=r}},g=class extends Error{constructor(e,s=!0,r){super(e);this.retry=s;this.cause=r}};var Je=128<<20,Z=class{#t=new TextDecoder("utf-8",{fatal:!0,ignoreBOM:!0});#e=new Uint8Array(0);#s=0;push(t){let[e,s]=[t.indexOf(10),t.lastIndexOf(10)],r=e<s?Ke(this.#t,t.subarray(e+1,s)).split(`
`):[];if(e>=0&&r.unshift(this.#n(t.subarray(0,e))),this.#r(t.subarray(s+1)),this.#s>Je)throw new g(`a row is longer than ${Je>>20} MiB; read its lists from endpoints of their own`,!1);return r}#n(t){this.#r(t);let e=this.#e.subarray(0,this.#s);return[this.#e,this.#s]=[new Uint8Array(0),0],Ke(this.#t,e)}#r(t){let e=this.#s+t.length;if(e>this.#e.length){let s=new Uint8Array(Math.max(e,2*this.#e.length));s.set(this.#e.subarray(0,this.#s)),this.#e=s}this.#e.set(t,this.#s),this.#s=e}};function Ke(n,t,e){try{return n.decode(t,e)}catch(s){throw new g("a part isn't UTF-8",!0,s)}}var Ns=2**31-1,Ct=class{constructor(t,e){this.timeout=e;this.#e=t,t?.addEventListener("abort",this.#n),t?.aborted&&this.#n()}#t=new AbortController;#e;#s;#n=()=>{this.#t.abort(),this.#s?.()};#r;async open(t,e,s){this.#r?.cancel().catch(()=>{});let r={headers:s,signal:this.#t.signal,redirect:"manual"},i=await this.#i(t(e,r));return this.#r=i.body?.getReader(),i}async call(t){this.#e?.throwIfAborted();let e,s=await this.#i((async()=>t())().catch(r=>{e={error:r}}));if(e)throw e.error;return s}async read(){return this.#r&&(await this.#i(this.#r.read())).value}async text(t){let e=new TextDecoder,s="";for(let r=await this.read();r&&(s+=e.decode(r,{stream:!0}),!(s.length>t));r=await this.read());return s}finish(){this.timeout=1e3,this.text(1e3).catch(()=>{}).finally(()=>this.close())}close(){this.#e?.removeEventListener("abort",this.#n),this.#t.abort()}async#i(t){let e,s=new Promise((r,i)=>{this.#s=i,this.#e?.aborted&&i();let o=()=>i(new g(`nothing arrived for ${this.timeout/1e3} seconds`));this.timeout>0&&(e=setTimeout(o,Math.min(this.timeout,Ns)))});try{return await Promise.race([t,s])}catch(r){throw this.#e?.throwIfAborted(),r instanceof g?r:new g("the connection was lost",!0,r)}finally{clearTimeout(e)}}};var Is=[408,429,502,503,504],Ye=65536,Qe=1e4,tt=class{constructor(t,e,s){this.options=e;if(this.#t=new URL(t,globalThis.location?.href),this.#t.username||this.#t.password)throw new TypeError("the URL has a user or a password; send them in the option headers, as Authorization");this.query=this.#t.searchParams,this.query.has("_numbers")||this.query.set("_numbers","string");for(let[i,o]of Object.entries({...e.params,...s}))o==null?this.query.delete(i):this.query.set(i,String(o));this.#e=new Headers(e.headers);let{token:r}=e;if(r!=null){if(this.#e.has("Authorization"))throw new TypeError("the option headers has an Authorization beside token; leave one of them out");typeof r!="function"&&this.#i(r)}}#t;#e;#s;connect(){return new Ct(this.options.signal,this.options.firstRowTimeout??0)}async open(t){let{status:e,headers:s}=await this.#n(t,this.#t);if(e===401&&typeof this.options.token=="function"&&({status:e,headers:s}=await this.#n(t,this.#t)),e===0||e>=300&&e<400)throw new x({detail:"the URL redirects, and the client doesn't follow; use the new URL"},e);if(e!==200)throw t.timeout=Qe,js(e,s,await t.text(Ye));return t.timeout=this.options.readTimeout??3e3*Number(s.get("rowstream-heartbeat")),s}async reason(t){let e=t.get("rowstream-stream");if(!e)return;let s=/^(\.\/|(\.\.\/)+)$/.exec(t.get("rowstream-root")??"")?.[0]??"/",r=this.connect();r.timeout=Qe;try{let{ok:i}=await this.#n(r,new URL(`${s}_rowstream/streams/${encodeURIComponent(e)}`,this.#t)),{error:o}=i?JSON.parse(await r.text(Ye)):{};return o&&new x(o,500)}catch{this.options.signal?.throwIfAborted();return}finally{r.close()}}async#n(t,e){let{token:s}=this.options;return typeof s=="function"&&this.#i(await t.call(()=>this.#r(s))),t.open(this.options.fetch??fetch,e,this.#e)}#r(t){return this.#s??=(async()=>t())().finally(()=>{this.#s=void 0})}#i(t){if(typeof t!="string"||!/^[!-~]+$/.test(t))throw new TypeError("the token isn't one word of visible ASCII characters: check the option token");this.#e.set("Authorization",`Bearer ${t}`)}};function js(n,t,e){if(t.get("content-type")?.startsWith("application/problem+json"))try{return new x(JSON.parse(e),n)}catch{}return new x({retry:Is.includes(n),retry_after:Ds(t.get("retry-after")??"")},n)}function Ds(n){if(/^\d+$/.test(n))return Number(n);let t=/ GMT$/.test(n)?Math.ceil((Date.parse(n)-Date.now())/1e3):NaN;return Number.isNaN(t)?void 0:t}var Xt={int64:n=>(typeof n=="string"?/^-?\d+$/.test(n):Number.isSafeInteger(n))?BigInt(n):n},Xe={int64:n=>{if(Number.isInteger(n)&&!Number.isSafeInteger(n)&&Math.abs(n)<=2**63)throw new RangeError(`${n} may have lost digits: remove _numbers from the parameters`);return Xt.int64(n)}};function Zt(n,t){let e=[];for(let{name:r,type:i,columns:o}of n){let a=o&&Zt(o,t);a&&e.push([r,u=>(u.forEach(a),u)]);let l=Object.hasOwn(t,i)?t[i]:void 0;l&&e.push([r,l])}if(e.length===0)return;let s=e.some(([r])=>r in Object.prototype);return r=>{for(let[i,o]of e){let a=s&&!Object.hasOwn(r,i)?void 0:r[i];a!=null&&(r[i]=o(a))}}}var Hs=["end","none"],Bs=32<<20;function Ot(n){let t=n.get("rowstream-tag"),e=n.get("rowstream-wire");if(!t||!e){let s=t?"Rowstream-Wire":"Rowstream-Tag";throw new g(`the header ${s} is missing: the URL isn't an endpoint, or CORS or a proxy hides it`,!1)}if(e!=="1")throw new g(`it has version ${e} of the wire: update this package`,!1);return t}var et=class{constructor(t,e,s,r){this.framing=t;this.delivery=s;this.converters=r;this.isPastCursor=!1;this.#s=0;this.#n={rows:[],cursors:new Map};this.#r=[];this.#i=0;this.#a={};this.#t=`{"$rowstream":"${e}",`}#t;#e;#s;#n;#r;#i;#o;#a;lines(t){let e=[];for(let s of t)if(this.framing==="sse"?this.#l(s):s.startsWith(this.#t)?(this.#h(e),e=[],this.#m(s)):s!==""&&e.push(s),this.end)return;this.#h(e)}#l(t){let[,e,s]=/^(event|data|id): (.*)$/s.exec(t)??[];if(e==="event")this.#a.type=s;else if(e==="data"){if(this.#a.data!==void 0)throw new g("the end of an event is missing");this.#a.data=s}else if(e==="id")this.#a.id=s;else if(t===""){let{type:r,data:i,id:o}=this.#a;if(this.#a={},i===void 0){if(o!==void 0&&!Hs.includes(o))throw new g("the data of an event are missing");return}if(r==="rowstream"&&i.startsWith(this.#t))return this.#m(i);this.#p(i),o&&this.#u&&(this.#f(),this.#c(o))}}take(){let t=this.#n;return this.#n={rows:[],cursors:new Map},t}flush(){this.#r.length===0||this.delivery==="marked"&&this.#i<Bs||this.#c(void 0)}get#u(){return this.delivery!=="final"}#c(t){let{rows:e,cursors:s}=this.#n;if(this.#r.length>0&&(this.isPastCursor=this.delivery!=="revocable"),e.length===0)this.#n.rows=this.#r;else for(let r of this.#r)e.push(r);[this.#r,this.#i]=[[],0],t!==void 0&&([this.cursor,this.isPastCursor]=[t,!1],s.set(this.#n.rows.length,t))}#h(t){let e=this.#o||!this.columns?void 0:Fs(t);for(let s=0;s<t.length;s+=1)e?this.#d(e[s],t[s]):this.#p(t[s])}#p(t){if(this.#f(),!this.columns)throw new g("the columns are missing");let e;try{if(e=JSON.parse(t),!Ze(e))throw new TypeError("it isn't an object")}catch(s){this.#o=s;return}this.#d(e,t)}#d(t,e){this.#e?.(t),this.#s+=1,this.#r.push(this.converters?t:e),this.#i+=e.length}#m(t){let e;try{e=JSON.parse(t)}catch(s){throw new g("a record isn't whole",!0,s)}if(e.error)throw new x(e.error,500);if(this.#f(),e.columns){if(!Array.isArray(e.columns))throw new g("the columns aren't a list");this.columns=e.columns,this.#e=this.converters&&Zt(e.columns,this.converters)}else if(e.mark){if(this.#g(e.mark.rows),typeof e.mark.next!="string")throw new g("a mark has no cursor");this.#u&&this.#c(e.mark.next)}else e.end&&(this.#g(e.end.rows),this.#c(e.end.next),this.end=e.end)}#f(){if(this.#o)throw new g("a row isn't whole",!0,this.#o)}#g(t){if(t===this.#s)return;let e=this.framing==="ndjson";throw this.isPastCursor||=!e,new g(`the server sent ${t} rows, but ${this.#s} arrived`,e)}};function Ze(n){return typeof n=="object"&&n!==null&&!Array.isArray(n)}function Fs(n){if(!(n.length<2))try{let t=JSON.parse(`[${n.join(",")}]`);return t.length===n.length&&t.every(Ze)?t:void 0}catch{return}}var[Ws,zs,Gs]=[100,1e4,3e5],Lt=class{constructor(t,e,s){this.options=e;this.isTail=s;this.columns=[];this.rows=0;this.bytes=0;this.resumed=0;this.marked=0;this.#e=!1;this.#n=0;this.#r=0;this.#i=!1;this.#o=0;let r=s?{_format:"sse",_follow:"1",_end:"1"}:{_format:"ndjson",_end:"1"};this.#t=new tt(t,e,r),this.cursor=this.#s=this.#t.query.get("_after")??void 0}#t;#e;#s;#n;#r;#i;#o;[Symbol.asyncIterator](){let t=this.#l(),{signal:e}=this.options,[s,r]=[[],new Map],i=0,o,a=()=>{let p=r.get(i);p!==void 0&&([this.cursor,this.marked]=[p,this.rows])},l=()=>{let p=s[i++];return this.rows+=1,a(),{done:!1,value:p}},u=async()=>{for(;i===s.length||e?.aborted;){let p=await t.next();if(p.done)return p;({rows:s,cursors:r}=p.value),i=0,a()}return l()};return{next:()=>{if(!o&&i<s.length&&!e?.aborted)return Promise.resolve(l());let p=o?o.then(u):u(),d=()=>{o===p&&(o=void 0)};return p.then(d,d),o=p},return:async()=>([s,i]=[[],0],await t.return(),{done:!0,value:void 0}),[Symbol.asyncIterator](){return this}}}async collect(t=1e5){let e=[];for await(let{rows:s}of this.#l()){e.length=this.#n-s.length;for(let r of s)e.push(r);if(e.length>t)throw new RangeError(`there are more than ${t} rows; iterate over them, or collect(more)`)}return this.#a(e.length),e}async*batches(){for await(let{rows:t}of this.#l())this.#a(t.length),t.length>0&&(yield t)}#a(t){this.rows+=t,[this.cursor,this.marked]=[this.#s,this.#r]}async*#l(){if(this.#e)throw new Error("these rows have been read; call rows() again to read them again");for(this.#e=!0;;){try{if(yield*this.#u(),!this.isTail)return;throw new g("the server ended the live tail")}catch(t){await this.#p(t)}this.resumed+=1}}async*#u(){let t=this.#t.connect(),e;try{this.#s!==void 0&&this.#t.query.set("_after",this.#s);let s=await this.#t.open(t),r=Date.now();e=this.#h(s);let[i,o]=[new Z,t.timeout/3];try{for(;!e.end;){let a=await t.read();if(!a)throw new g("the end is missing");this.bytes+=a.length,this.isTail&&Date.now()-r>o&&(this.#o=0),yield*this.#c(e,i,a)}this.page=e.end.page}catch(a){throw(a instanceof g&&a.retry?await this.#t.reason(s):void 0)??a}}finally{e?.end?t.finish():t.close()}}*#c(t,e,s){let r;try{t.lines(e.push(s))}catch(o){r=o}t.flush();let i=t.take();this.columns=t.columns??this.columns,t.cursor!==void 0&&t.cursor!==this.#s&&(this.#s=t.cursor,this.#o=0);for(let o of i.cursors.keys())this.#r=this.#n+o;if(this.#n+=i.rows.length,this.#i=t.isPastCursor,(i.rows.length>0||i.cursors.size>0)&&(yield i),this.options.signal?.throwIfAborted(),r!==void 0)throw r}#h(t){let e=Ot(t),s=t.get("rowstream-snapshot");s&&this.#t.query.has("_shard")&&this.#t.query.set("_snapshot",s);let r=["marks","ids"].includes(t.get("rowstream-resume")??""),{as:i,convert:o,rewind:a}=this.options,l=r?a?"revocable":"marked":"final",u=this.#t.query.get("_numbers")==="string"?Xt:Xe;return new et(this.isTail?"sse":"ndjson",e,l,i==="text"?void 0:{...u,...o})}async#p(t){let e=t instanceof x;if(!e&&!(t instanceof g))throw t;let s=e?1e3*(t.retryAfter??0):0,r=this.options.retries??(this.isTail?20:8);if(t.retry&&!this.#i&&this.#o<r&&s<=Gs)return this.#n=this.#r,this.rows=Math.min(this.rows,this.#r),this.options.rewind?.(this.rows,t),this.#d(s);let i=this.#i&&this.rows>0,a={rows:i?this.rows:Math.min(this.rows,this.#r),cursor:i?void 0:this.cursor};throw e?Object.assign(t,a):new W(t.message,a,t.cause)}async#d(t){let e=Math.min(Ws*2**this.#o,zs);this.#o+=1;let{signal:s}=this.options;await new Promise(r=>{let i=()=>{clearTimeout(o),s?.removeEventListener("abort",i),r()},o=setTimeout(i,t+e*(.5+Math.random()/2));s?.addEventListener("abort",i),s?.aborted&&i()}),s?.throwIfAborted()}};function te(n,t={}){return new Lt(n,t,!1)}function ee(n,t={}){return new Lt(n,t,!0)}var Ut=class{#t=new Z;#e;#s;constructor(t,e){this.#s=t==="sse"?`
`:"",this.#e=new et(t==="sse"?"sse":"ndjson",Ot(e),"final",void 0)}get isComplete(){return this.#e.end!==void 0}push(t){let e=this.#t.push(t).flatMap(s=>s.split(this.#s));this.isComplete||this.#e.lines(e),this.#e.flush(),this.#e.take()}};var Mt=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#e=0;this.#s=!1;this.#n=[];this.#r=0;this.#i=0}#t;#e;#s;#n;#r;#i;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#s){this.#t.push(t),this.#e+=t.length,this.#s=this.#t.length>=1e4||this.#e>=8388608;return}let e=this.#n.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#n.push(e)),e.lines.push(t),e.text+=t.length,this.#r+=1,this.#i+=t.length,(this.#r>=10500||this.#i>8388608)&&this.#o()}#o(){if(this.#n.length<2)return;let t=this.#n.shift();this.#r-=t.lines.length,this.#i-=t.text}#a(t){for(let[e,s]of pt(t)){let r=this.columns.get(e)??{letters:e.length,isLong:!1};r.letters=Math.min(Math.max(r.letters,s.length),48),r.isLong||=s.length>48,s!=="null"&&(r.isNumber=r.isNumber!==!1&&/^[-\d]/.test(s)),this.columns.set(e,r)}}get#l(){return this.total-this.#t.length-this.#r}get length(){return this.#t.length+(this.#l>0?1:0)+this.#r}get text(){return this.#e+this.#i}get kept(){return this.#t.length+this.#r}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let r=this.#t.length+s+e+1;for(let i of this.#n){if(e<i.lines.length)return{row:r,line:i.lines[e]};e-=i.lines.length}}cutTo(t){for(;this.total>t;){let e=this.#l===0;this.total-=1;let s=this.#n.at(-1);if(!s){if(!e)continue;this.#e-=this.#t.pop()?.length??0,this.#s=!1;continue}let r=s.lines.pop()?.length??0;s.text-=r,this.#i-=r,this.#r-=1,s.lines.length===0&&this.#n.pop()}}};function pt(n){let t=ut(n,0);if(n[t]!=="{")return[["value",n.trim()]];let e=[];for(t=ut(n,t+1);n[t]==='"';){let s=ts(n,t),r=JSON.parse(n.slice(t,s)),i=ut(n,ut(n,s)+1),o=Vs(n,i);e.push([r,n.slice(i,o).trimEnd()]),t=ut(n,o+1)}return e}function ut(n,t){for(;n[t]===" "||n[t]==="	";)t+=1;return t}function ts(n,t){for(t+=1;t<n.length&&n[t]!=='"';t+=1)n[t]==="\\"&&(t+=1);return t+1}function Vs(n,t){let e=0;for(;t<n.length;){let s=n[t];if(s==='"'){t=ts(n,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function es(n){let t=n[0];return t==='"'?{kind:"text",text:JSON.parse(n)}:t==="{"||t==="["?{kind:"json",text:n}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:n}}var rs=["ndjson","sse","json-seq"],ss=1e5,Js=30,st=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.again="";this.resumed=0;this.status=0;this.bytes=0;this.rows=new Mt;this.text="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#t=new AbortController;this.#e=!1;this.#s=0;this.#u=async(t,e)=>{let s=new URL(t);if(s.pathname.startsWith("/_rowstream/streams/"))return _(new URL(s.pathname.slice(12),k),e);let r=await _(s,e);return this.#c(r),r}}#t;#e;#s;get isRows(){return this.asked.reads==="rows"||this.asked.reads==="tail"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#e=!0,this.#t.abort()}async start(){await this.#n(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#e=!1,this.#t=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.status=0,this.changed(),await this.#n(t)}async#n(t){let e=!1,s=async()=>{e||(e=!0,await this.#w().finally(()=>e=!1))},r=setInterval(()=>{s()},1e3);try{await this.#r(t)}catch(o){this.#i(o)}finally{clearInterval(r)}this.ended=performance.now(),this.again="",this.changed();let i=this.state==="cancelled"||this.state==="truncated";await this.#w(i?5:1),this.state==="unproved"&&this.#g(),this.state==="truncated"&&this.#f(),this.changed()}#r(t){switch(this.asked.reads){case"rows":return this.#o(t,te);case"tail":return this.#o(t,ee);case"sse":case"json-seq":return this.#a(t,this.asked.reads);default:return this.#h(t)}}#i(t){this.#e?this.state="cancelled":t instanceof x?(this.state="failed",this.problem={status:t.status,detail:t.detail,...t.problem}):this.status===0?(this.state="failed",this.problem={title:"The server cannot be reached",detail:ns(t)}):(this.state="truncated",this.why=ns(t))}async#o(t,e){let s=this.rows.total,r=(a,l)=>{this.rows.cutTo(s+a),this.again=l.message,this.resumed+=1,this.changed()},i=e(t,{...this.#l(t),as:"text",rewind:r}),o=0;try{for await(let a of i.batches()){this.firstRow??=performance.now()-this.started;for(let u of a)this.rows.push(u);let l=i.bytes-o;o=i.bytes,await this.#d(l)}this.state="complete"}finally{this.bytes+=i.bytes-o,i.cursor!==void 0&&(this.mark={next:i.cursor,rows:s+i.marked})}}async#a(t,e){let s=new tt(t,this.#l(t),{}),r=s.connect(),i=new TextDecoder,o;try{for(o=new Ut(e,await s.open(r));!o.isComplete;){let a=await r.read();if(!a)throw new g("the end is missing");this.#p(i.decode(a,{stream:!0})),await this.#d(a.byteLength),o.push(a)}this.state="complete"}finally{o?.isComplete?r.finish():r.close()}}#l(t){return{params:{_numbers:t.searchParams.get("_numbers")},headers:this.asked.headers,signal:this.#t.signal,fetch:this.#u}}#u;#c({ok:t,status:e,headers:s}){this.status=e,t&&(this.state="running",this.again="",this.stream=s.get("Rowstream-Stream")??"",this.timing=Ks(s.get("Server-Timing")),this.changed())}async#h(t){let e=await _(t,{headers:this.asked.headers,signal:this.#t.signal});if(this.#c(e),!e.ok)throw new x(await C(e),e.status);let s=new TextDecoder,r=e.body?.getReader();for(let i=await r?.read();i?.value;i=await r?.read())this.asked.reads==="text"&&this.#p(s.decode(i.value,{stream:!0})),await this.#d(i.value.byteLength);this.#m(e)}#p(t){this.text.length<ss&&(this.text+=t.slice(0,ss-this.text.length))}async#d(t){this.bytes+=t,this.changed(),this.limit>0&&await this.#b(t),performance.now()-this.#s>Js&&(await new Promise(e=>setTimeout(e)),this.#s=performance.now())}#m({headers:t,status:e}){this.state=t.has("Content-Length")||e===204?"complete":"unproved"}#f(){this.report?.error&&(this.why=`the server says: ${this.report.state}`,this.problem=this.report.error)}#g(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`):this.report.bytes===this.bytes&&(this.state="complete"))}async#w(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await _(new URL(`streams/${this.stream}`,k));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#b(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#t.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(r=>setTimeout(r,Math.min(s,200)))}}};function ns(n){if(!(n instanceof W)&&!(n instanceof g))return String(n);let t=n instanceof g?n.message:n.reason;return n.cause instanceof Error?`${t} (${n.cause.message})`:t}function Ks(n){return(n??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function nt({title:n,status:t,code:e,detail:s,hint:r,sqlstate:i}){return c`<div class="problem" role="alert">
    <h2>${t?c`<span>${t}</span>`:h} ${n??e??"It failed"}</h2>
    ${s?c`<p>${s}</p>`:h} ${r?c`<p class="hint">${r}</p>`:h}
    <p class="quiet">
      ${e?c`<a href=${new URL(`errors/${e}`,k).href} target="_blank" rel="noreferrer">What ${e} means</a>`:h}
      ${i?c` SQLSTATE ${i}`:h}
    </p>
  </div>`}var se=class extends y{static{this.properties={request:{attribute:!1},statements:{state:!0},problem:{state:!0}}}constructor(){super(),this.statements=[]}createRenderRoot(){return this}async#t(){let t=this.request();if(t){this.problem=void 0;try{this.statements=await is(t)}catch(e){this.statements=[],this.problem=e instanceof Error?{title:"There is no plan",detail:e.message}:e}}}render(){return c`<details class="card plan">
      <summary>SQL and its plan</summary>
      <p>The SQL, and how the database would run it with these parameters. Nothing is run.</p>
      <div class="actions"><button type="button" @click=${()=>this.#t()}>Explain</button></div>
      <div role="status">
        ${this.statements.map(({name:t,sql:e,plan:s})=>c`<section aria-label=${t}>
            ${this.statements.length>1?c`<h2>${t}</h2>`:h}
            <pre tabindex="0" role="region" aria-label="SQL of ${t}">${e}</pre>
            <pre tabindex="0" role="region" aria-label="Plan of ${t}">${Ys(s)}</pre>
          </section>`)}
      </div>
      ${this.problem?nt(this.problem):h}
    </details>`}};async function is(n){let t=new URL(n.url);for(let s of["_end","_follow","_after","_shard","_snapshot"])t.searchParams.delete(s);t.searchParams.set("_format","json"),t.searchParams.set("_explain","1");let e=await _(t,{headers:n.headers});if(!e.ok)throw await C(e);return(await e.json()).statements}async function os(n){let t=await is(n).catch(()=>[]),e=t.length===1?t[0].plan:[],s=/\brows=(\d+)/.exec(String(e[0]?.["QUERY PLAN"]))?.[1]??(e.length===1?e[0].rows:void 0);return s==null?void 0:Number(s)}function Ys(n){let[t]=n;if(!t)return"";if("detail"in t&&"parent"in t)return as(n,0,"").join(`
`);let e=Object.keys(t),s=n.map(o=>e.map(a=>String(o[a]??"")));if(e.length===1)return s.join(`
`);let r=e.map((o,a)=>Math.max(o.length,...s.map(l=>l[a].length))),i=o=>o.map((a,l)=>a.padEnd(r[l])).join("  ").trimEnd();return[i(e),...s.map(i)].join(`
`)}function as(n,t,e){return n.filter(s=>s.parent===t).flatMap(s=>[e+String(s.detail),...as(n,s.id,`${e}  `)])}customElements.define("rs-plan",se);var Qs=["_format","_end","_follow"];function cs(n,t,e){let s=Xs(n,t);return[{name:"curl",text:Zs(n,e)},{name:"JavaScript",text:s?tn(s,n,e):en(n,e)},{name:"Python",text:s?sn(s,n,e):nn(n,e)}]}function Xs(n,t){if(!(n.reads==="text"||n.reads==="bytes"))return qt(n)?t.includes("sse")?"follow":void 0:t.includes("ndjson")?"rows":void 0}var qt=({url:n})=>n.searchParams.has("_follow");function hs({url:n}){let t=new URL(n);for(let e of Qs)t.searchParams.delete(e);return JSON.stringify(t.href)}var ls=n=>`'${n.replaceAll("'","'\\''")}'`;function Zs({url:n,headers:t,reads:e},s){let r=s?['  -H "Authorization: Bearer $TOKEN"']:[],i=Object.entries(t).map(([a,l])=>`  -H ${ls(`${a}: ${l}`)}`),o=e==="bytes"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...r,...i,...o,`  ${ls(n.href)}`].join(` \\
`)}function Nt(n){return Object.entries(n).map(([t,e])=>`${JSON.stringify(t)}: ${JSON.stringify(e)}`)}function tn(n,t,e){let s=Nt(t.headers),r=[...e?["token: process.env.TOKEN"]:[],...s.length?[`headers: { ${s.join(", ")} }`]:[]],i=r.length?`, { ${r.join(", ")} }`:"";return`import { ${n} } from "rowstream"; // npm install rowstream

// It resumes cuts, and throws if a row is missing.
for await (const row of ${n}(${hs(t)}${i})) {
  console.log(row);
}`}function en(n,t){let{url:e,headers:s}=n,r=[...t?['"Authorization": `Bearer ${process.env.TOKEN}`']:[],...Nt(s)],i=r.length?`, { headers: { ${r.join(", ")} } }`:"",o=qt(n)?"for await (const text of response.body.pipeThrough(new TextDecoderStream())) process.stdout.write(text);":"const text = await response.text();";return`const response = await fetch(${JSON.stringify(e.href)}${i});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws if the answer is cut.
${o}`}function sn(n,t,e){let s=Nt(t.headers),r=[...e?['token=os.environ["TOKEN"]']:[],...s.length?[`headers={${s.join(", ")}}`]:[]];return`${e?`import os

`:""}import rowstream  # pip install rowstream

# It resumes cuts, and raises if a row is missing.
for row in rowstream.${n}(${[hs(t),...r].join(", ")}):
    print(row)`}function nn(n,t){let{url:e,headers:s}=n,r=[...t?[`"Authorization": f"Bearer {os.environ['TOKEN']}"`]:[],...Nt(s)],i=[JSON.stringify(e.href),...r.length?[`headers={${r.join(", ")}}`]:[],...qt(n)?["stream=True"]:[]],o=qt(n)?`for line in response.iter_lines():  # it raises if the answer is cut
    print(line.decode())`:"body = response.content  # it raises if the answer is cut";return`${t?`import os

`:""}import requests

response = requests.get(${i.join(", ")})
response.raise_for_status()
${o}`}var ne=class extends O{render(t){return v}update(t,[e]){return Object.assign(t.element.style,e),v}},T=N(ne);var rn=250,on=/^process_resident_memory_bytes (\S+)$/m,re=class extends y{static{this.properties={request:{attribute:!1},sides:{state:!0},rows:{state:!0},problem:{state:!0},isRunning:{state:!0}}}#t=new AbortController;constructor(){super(),this.sides=[],this.rows=0,this.isRunning=!1}createRenderRoot(){return this}disconnectedCallback(){super.disconnectedCallback(),this.#t.abort()}async#e(){let t=this.request();if(!(!t||this.isRunning)){this.isRunning=!0,this.sides=[],this.problem=void 0,this.#t=new AbortController;try{for(let e of[this.#n,this.#r])this.sides=[...this.sides,await this.#s(e,t)]}catch(e){let s=this.#t.signal.aborted?"Stopped":"The comparison failed";this.problem=e instanceof Error?{title:s,detail:e.message}:e}this.isRunning=!1}}async#s(t,e){let s=0,r=async()=>{let o=await _(new URL("metrics",k)).catch(()=>{}),a=o?.ok?on.exec(await o.text()):null;s=Math.max(s,Number(a?.[1]??0))};await r();let i=setInterval(()=>{r()},rn);try{return{...await t(e),server:s}}finally{clearInterval(i)}}#n=async({url:t,headers:e})=>{let s=0,r=new st({url:ds(t,"ndjson"),headers:e,reads:"rows"},()=>{s=Math.max(s,r.rows.text)});if(this.#t.signal.addEventListener("abort",()=>r.cancel()),await r.start(),r.problem)throw r.problem;if(r.state!=="complete"&&r.state!=="unproved")throw new Error(r.why||"It was stopped.");return this.rows=r.rows.total,{name:"As rows come",firstRow:r.firstRow??r.elapsed,whole:r.elapsed,held:s}};#r=async({url:t,headers:e})=>{let s=performance.now(),r=await _(ds(t,"json"),{headers:e,signal:this.#t.signal});if(!r.ok)throw await C(r);let i=await r.text();JSON.parse(i);let o=performance.now()-s;return{name:"Read whole, then parsed",firstRow:o,whole:o,held:i.length}};render(){return c`<details class="card compare">
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
          ${this.isRunning?"Reading …":this.sides.length===2?`${w(this.rows)} ${X(this.rows,"row")}, twice`:""}
        </span>
      </div>
      ${this.problem?nt(this.problem):h} ${this.sides.length?this.#i():h}
    </details>`}#i(){let t=(e,s,r)=>{let i=Math.max(...this.sides.map(s),1e-9);return c`<tr>
        <th scope="row">${e}</th>
        ${this.sides.map(o=>c`<td>
            ${r(s(o))}
            <div class="bar" aria-hidden="true">
              <i class="database" ${T({flexGrow:String(s(o)/i)})}></i
              ><i ${T({flexGrow:String(1-s(o)/i)})}></i>
            </div>
          </td>`)}
      </tr>`};return c`<table>
      <thead>
        <tr>
          <td></td>
          ${this.sides.map(({name:e})=>c`<th scope="col">${e}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${t("First row after",({firstRow:e})=>e,A)}
        ${t("All rows after",({whole:e})=>e,A)}
        ${t("Text held in this tab",({held:e})=>e,S)}
        ${this.sides.every(({server:e})=>e>0)?t("Memory of the server, at most",({server:e})=>e,S):h}
      </tbody>
    </table>`}};function ds(n,t){let e=new URL(n);return e.searchParams.set("_format",t),e.searchParams.delete("_follow"),t!=="ndjson"&&e.searchParams.delete("_end"),e}customElements.define("rs-compare",re);var z=29,us=8,an=7.9,ln=26,ie=class extends y{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#e(){return this.querySelector(".scroller")}updated(){let t=this.#e;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#e,[s,r]=[e?.scrollTop??0,e?.clientHeight||600],i=Math.max(0,Math.min(Math.floor(s/z),this.rows.length)-us),o=Math.min(this.rows.length,Math.ceil((s+r)/z)+us),a=[];for(let d=i;d<o;d+=1){let m=this.rows.at(d);m&&a.push(this.#s(d,m,t))}let l=[w(this.rows.total).length,...t.map(([,{letters:d}])=>d)].map(d=>Math.round(d*an+ln)),u=`${l.reduce((d,m)=>d+m)}px`,p=t.map(([,d])=>d.isLong);return c`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#i}
    >
      <div class="sizer" ${T({height:`${(this.rows.length+1)*z}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${T({top:`${i*z}px`,minWidth:u,width:p.includes(!0)?"100%":u})}
        >
          <colgroup>
            ${l.map((d,m)=>c`<col ${T({width:p[m-1]?"":`${d}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="at">#</th>
              ${t.map(([d,{isNumber:m}])=>c`<th scope="col" class=${m?"number":""} title=${d}>${d}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${a}
          </tbody>
        </table>
      </div>
    </div>`}#s(t,e,s){if("from"in e){let i=`rows ${w(e.from)} to ${w(e.to)} have passed and aren't kept`;return c`<tr class="gap"><td colspan=${s.length+1}><span>${i}</span></td></tr>`}let r=new Map(pt(e.line));return c`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#n(t)}
      @dblclick=${()=>this.#r(t)}
    >
      <th scope="row" class="at">${w(e.row)}</th>
      ${s.map(([i])=>cn(r.get(i)))}
    </tr>`}#n(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#e;if(!e)return;let s=this.picked*z,r=e.scrollTop+e.clientHeight-3*z;s<e.scrollTop?e.scrollTop=s:s>r&&(e.scrollTop+=s-r)}#r(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#i(t){let e=Math.floor((this.#e?.clientHeight??0)/z)-2,r={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#r(this.picked);else if(r!==void 0)this.#n(Math.max(-1,this.picked)+r);else return;t.preventDefault()}};function cn(n){if(n===void 0)return c`<td></td>`;let{kind:t,text:e}=es(n),s=e.length>300?`${e.slice(0,300)}…`:e;return c`<td class=${t} title=${e.length>30?s:h}>${s}</td>`}customElements.define("rs-table",ie);var mt=[0,4e6,1e6,25e4,5e4,1e4],hn=1e3,dn=["pool","database","encode","client"],ps={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},un={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},oe=class extends y{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=new Set;#e=!1;#s=!1;#n=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#r(),this.#e||=this.endpoint.options.some(({name:s})=>this.query.has(s))}disconnectedCallback(){super.disconnectedCallback(),this.#r()}#r(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said="",this.#t.clear(),this.#e=!1}#i=()=>{this.#s||(this.#s=!0,requestAnimationFrame(()=>{this.#s=!1,this.requestUpdate()}))};get#o(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#a(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}get#l(){return rs.includes(this.#o)&&this.endpoint.controls.has("_end")}get#u(){return this.#o==="arrow"?"bytes":(this.#o==="sse"||this.#o==="json-seq")&&this.#l?this.#o:this.#o!=="ndjson"?"text":this.#a&&this.endpoint.formats.includes("sse")?"tail":"rows"}#c(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of[...this.endpoint.params,...this.endpoint.options]){let a=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(a));else{if(a==="")continue;if(o.in==="header")s[o.name]=a;else if(o.schema.type==="object")for(let[l,u]of pn(a))e.append(l,u);else for(let l of mn(o,a))e.append(o.name,l)}}let r=this.#o;r&&e.set("_format",r),this.#l&&e.set("_end","1"),this.#a&&e.set("_follow","1");let i=new URL(t.replace(/^\//,"./"),De);return i.search=e.toString(),{url:i,headers:s}}#h(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let r=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${r&&`?${r}`}`)}#p(t){this.#t.delete(t)||this.#t.add(t),this.requestUpdate()}async#d(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#c();this.run=new st({url:e,headers:s,reads:this.#u},this.#i),this.isFollowing=this.#a,this.run.isRows&&!this.#a&&this.endpoint.controls.has("_explain")&&this.#m(this.run),await this.#f(this.run,this.run.start())}async#m(t){t.expected=await os(t.asked),this.#i()}async#f(t,e){if(t.limit=mt[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t!==this.run)return;let{total:s}=t.rows;this.said=`${ps[t.state]}, ${w(s)} ${X(s,"row")}. ${t.problem?.detail??t.why}`}#g(t){this.querySelector("form button.run")?.focus(),this.#f(t,t.resume())}#w(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=mt[this.speed]??0)}#b(){this.isPaused=!this.isPaused,this.#n=this.run?.rows.total??0}async#y(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{name:t,summary:e,needsToken:s}=this.endpoint;return c`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${fn(t)}</h1>
        <span class="grow"></span>
        ${this.#L()}
        <button class="quiet" @click=${()=>this.#y("Link",location.href)}>Copy link</button>
      </header>
      ${e?c`<p class="summary">${e}</p>`:h}
      ${s&&!E()?c`<p class="note">This endpoint needs a token. Enter yours at the top of the page.</p>`:h}
      ${this.#_()} ${this.run?this.#x(this.run):h} ${this.#T()}
      ${this.#P()} ${this.#C()} ${this.#O()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#_(){let{params:t,formats:e,controls:s}=this.endpoint,r=this.run?.isRunning??!1;return c`<form class="card" @submit=${this.#d}>
      ${t.length?c`<div class="fields">${Qt(t,i=>i.name,i=>this.#v(i))}</div>`:c`<p class="quiet">This endpoint has no parameters.</p>`}
      ${this.#R()}
      <div class="actions">
        ${e.length>1?c`<label class="inline"
              ><span>Format</span>
              <select @change=${i=>this.#h("_format",i.target.value)}>
                ${e.map(i=>c`<option value=${i} ?selected=${i===this.#o}>
                    ${un[i]??i}
                  </option>`)}
              </select></label
            >`:h}
        ${s.has("_follow")?c`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${dt(this.#a)}
                @change=${i=>this.#h("_follow",i.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:h}
        <span class="grow"></span>
        <button
          type=${r?"button":"submit"}
          class=${r?"stop":"run"}
          @click=${()=>r&&this.run?.cancel()}
        >
          ${r?"Cancel":"Run"}
        </button>
        <button type="button" @click=${this.#q} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#R(){let{path:t,options:e}=this.endpoint;if(e.length===0)return h;let s=c`<details class="options" ?open=${this.#e}>
      <summary>Options of the response</summary>
      <div class="fields">${Qt(e,r=>r.name,r=>this.#v(r))}</div>
    </details>`;return Pt(t,s)}#v(t){let{name:e,schema:s,required:r}=t,i=`param-${e}`,o=At(t),a=this.query.get(e)??"",l=s.default===void 0||s.default===null?"":String(s.default),u=R=>{let J=R.target;J.type==="text"&&this.#t.add(e),this.#h(e,J.value)},p=$n(s,a),d=this.#t.has(e)?"text":p??"text",m=d==="text",f=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),$=f&&s.type!=="array";return c`<div class="field">
      <label for=${i}
        >${o}${r?c`<span class="required" title="required">*</span>`:h}
        <span class="type">${ct(s)}</span></label
      >
      ${$?c`<select id=${i} ?required=${r} aria-describedby="${i}-more" @change=${u}>
            <option value="" ?selected=${a===""}>${l||(r?"choose":"not given")}</option>
            ${f.map(R=>c`<option value=${String(R)} ?selected=${a===String(R)}>${R}</option>`)}
          </select>`:c`<input
            id=${i}
            type=${d}
            step=${s.format==="date-time"?"1":h}
            .value=${dt(m?a:a.replace(/Z$/,""))}
            ?required=${r}
            placeholder=${l||wn(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${i}-more"
            @input=${u}
          />`}
      <small id="${i}-more">${gn(bn(t,m,l))}</small>
      ${p?c`<button type="button" class="link" @click=${()=>this.#p(e)}>
            ${m?"Use the picker":"Write as text"}<span class="spoken"> for ${o}</span>
          </button>`:h}
    </div>`}#x(t){let e=t.elapsed,{total:s}=t.rows,r=t.isRunning&&(t.expected??0)>s;return c`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${ps[t.state]}</span>
        ${t.isRows?G(X(s,"row"),w(s)):h}
        ${r?G("expected by the planner",`of some ${w(t.expected)}`):h}
        ${s>=hn?G("rows/s",w(s/e*1e3)):h}
        ${G("received",S(t.bytes))}
        ${t.resumed>0?G("resumed",`${w(t.resumed)} ×`):h}
        ${G("time",A(e))}
        ${t.firstRow===void 0?h:G("first row",A(t.firstRow))}
        <span class="grow"></span>
        ${this.#k(t)}
      </div>
      ${t.again?c`<p class="note" role="status">Trying again: ${t.again}.</p>`:h}
      ${t.why?c`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:h}
      ${t.state==="unproved"?c`<p class="note">
            We can't tell if this is the whole answer: it was compressed on its way, and its format has no record at its
            end. NDJSON has one.
          </p>`:h}
      ${t.problem?nt(t.problem):h} ${yn(t)} ${this.#E(t)}
      <div class="progress reading">${this.#S(t)}</div>
    </section>`}#k(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return c`${t.isRunning&&t.isRows?c`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#b}>
            ${this.isPaused?`Go on (${w(t.rows.total-this.#n)} new)`:"Pause"}
          </button>`:h}
      ${e?c`<button class="run" @click=${()=>this.#g(t)}>
            Resume after row ${w(t.mark.rows)}
          </button>`:h}`}#S(t){return c`${t.rows.total?c`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${dt(this.isFollowing)}
              @change=${e=>this.isFollowing=e.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:h}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${mt.length-1}
          .value=${dt(String(this.speed))}
          aria-valuetext=${ms(this.speed)}
          @input=${this.#w}
        /><output>${ms(this.speed)}</output></label
      >`}#E(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?c`<p class="empty">There are no rows.</p>`:h;let s=this.isPaused?this.#n:t.rows.total;return c`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#A}
      ></rs-table>`}if(t.asked.reads==="bytes")return c`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return h;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return c`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?h:c`<p class="quiet">This is the beginning of ${S(t.bytes)}.</p>`}`}#A(t){let{row:e,line:s}=t.detail,r=this.querySelector("dialog")??document.createElement("dialog");r.replaceChildren(),r.ariaLabel=`Row ${e}`;let i=document.createElement("h2");i.textContent=`Row ${w(e)}`;let o=document.createElement("dl");for(let[l,u]of pt(s)){let[p,d]=[document.createElement("dt"),document.createElement("dd")];[p.textContent,d.textContent]=[l,u],o.append(p,d)}let a=document.createElement("button");a.textContent="Close",a.onclick=()=>r.close(),r.append(i,o,a),this.append(r),r.showModal()}#T(){let t={...this.#c(),reads:this.#u},e=cs(t,this.endpoint.formats,E()!==""),{name:s,text:r}=e[this.language];return c`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${e.map(({name:i},o)=>c`<button
            class="tab"
            aria-pressed=${o===this.language}
            @click=${()=>this.language=o}
          >
            ${i}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#y(s,r)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${s}>${r}</pre>
    </section>`}#$=()=>this.querySelector("form")?.reportValidity()?this.#c():void 0;#P(){return this.endpoint.controls.has("_explain")?Pt(this.endpoint.path,c`<rs-plan .request=${this.#$}></rs-plan>`):h}#C(){let{formats:t}=this.endpoint;return!t.includes("ndjson")||!t.includes("json")?h:Pt(this.endpoint.path,c`<rs-compare .request=${this.#$}></rs-compare>`)}#O(){let{columns:t}=this.endpoint;return t.length===0?h:c`<details class="card">
      <summary>${t.length} ${X(t.length,"column")}</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>c`<dt>${e}</dt><dd>${ct(s)}</dd>`)}
      </dl>
    </details>`}#L(){if(!this.endpoint.hasPage)return h;let t=this.#U;return c`<button
      class="quiet"
      ?disabled=${t!==void 0}
      title=${t??h}
      @click=${this.#M}
    >
      Open as a page
    </button>`}get#U(){let[t]=Object.keys(this.#c().headers);if(t)return`A browser can't send the header ${t} when it opens a page`;let{needsToken:e,takesPassword:s}=this.endpoint;return e&&!s?"A browser can't send your token when it opens a page":void 0}#M=()=>{let t=this.#$()?.url;t&&(t.searchParams.delete("_end"),t.searchParams.delete("_follow"),t.searchParams.set("_format",Et),window.open(t,"_blank","noopener"))};#q=async()=>{let t=this.#$();if(!t)return;let{url:e,headers:s}=t;e.searchParams.delete("_end"),e.searchParams.delete("_follow");let r=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",r);let i=document.createElement("a");if(i.download=`${r}.${this.#o||"txt"}`,i.href=e.href,E()||Object.keys(s).length>0){this.said="Downloading";try{let o=await _(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);i.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}i.click(),this.said=`${i.download} is downloaded by the browser`}};function pn(n){return new URLSearchParams(n.replaceAll("+","%2B"))}function mn(n,t){return n.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function fn(n){return n.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?c`<em>${t}</em>`:t)}function gn(n){return n.split("`").map((t,e)=>e%2?c`<code>${t}</code>`:t)}function wn({schema:n,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return n.type==="array"?"1,2,3":n.type==="object"?"status=eq.PAID&total=gt.100":e[n.format??""]??(t?"":"not given")}function $n({format:n},t){if(n==="date"&&/^(\d{4}-\d\d-\d\d)?$/.test(t))return"date";if(n==="date-time"&&/^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?)?$/.test(t))return"datetime-local"}function bn({schema:n,in:t,name:e,description:s=""},r,i){let o=[n.minimum===void 0?"":`from ${n.minimum}`,n.maximum===void 0?"":`to ${n.maximum}`],a=t==="query"?"":t==="path"?"in the path":`header ${e}`,l=i&&!r?`${i} unless given`:"",u=n.format!=="date-time"?"":r?"UTC if it has no offset":"UTC";return[s,o.filter(Boolean).join(" "),u,l,a].filter(Boolean).join(" · ")}function G(n,t){return c`<span class="fact"><b>${t}</b> <span>${n}</span></span>`}var ms=n=>mt[n]?`${S(mt[n])}/s`:"full speed";function yn(n){let t=Object.entries(n.report?.ms??{}),e=(t.length?t:n.timing).filter(([o,a])=>dn.includes(o)&&a>=1),s=e.reduce((o,[,a])=>o+a,0),r=n.report&&n.isRunning?`The server has sent ${S(n.report.bytes)}.`:"";if(s===0)return r?c`<p class="quiet phases">${r}</p>`:h;let i=c`<div class="bar" aria-hidden="true">
    ${e.map(([o,a])=>c`<i class=${o} ${T({flexGrow:String(a/s)})}></i>`)}
  </div>`;return c`<div class="phases">
    ${e.length>1?i:h}
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([o,a])=>c`<span class="key ${o}">${o} ${A(a)}</span> `)} ${r}
    </p>
  </div>`}customElements.define("rs-endpoint",oe);var vn=2e3,_n=15*6e4,Rn=2*6e4,xn=5,ws="rowstream_request_duration_seconds_bucket",ft=["pool","database","encode","client"],b=[],fs=0,kn=/^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections|host_in_flight|request_duration_seconds_bucket)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;function Sn(n){let t=new Map;for(let e of n.split(`
`)){let s=kn.exec(e);if(!s)continue;let[r,i,o]=[s[1],s.at(-2)??"",Number(s.at(-1))],a=t.get(r)??new Map;t.set(r,a.set(i,o))}return t}function En({series:n},{at:t,values:e}){let s=new Map;return e.forEach((r,i)=>{let{name:o,labels:a}=n[i];r!==null&&s.set(o,(s.get(o)??new Map).set(a,r))}),{at:t,isWhole:!1,metrics:s}}function gs(n){let t=b.at(-1)?.at??0;b.at(-1)?.metrics.delete(ws),b.push(...n.filter(({at:e})=>e>t)),b=b.filter(({at:e})=>e>b.at(-1).at-_n)}var P=(n,t)=>new RegExp(`(?:^|,)${t}="((?:[^"\\\\]|\\\\.)*)"`).exec(n)?.[1]??"";function V(n,t,e=()=>!0){let s=0;for(let[r,i]of n.metrics.get(t)??[])e(r)&&(s+=i);return s}function It(n,t,e=()=>!0){let s=b[n],r=b.slice(Math.max(0,n-xn),n).find(e)??s,i=(s.at-r.at)/1e3;return i>0?Math.max(0,t(s)-t(r))/i:0}var ae=class extends y{static{this.properties={failure:{state:!0},refused:{state:!0},streams:{state:!0}}}#t=0;#e=!1;createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#s().then(()=>this.#n()),this.#t=setInterval(()=>{this.#n()},vn)}disconnectedCallback(){super.disconnectedCallback(),clearInterval(this.#t)}async#s(){this.#e=!0;let t=await ht(`history?after=${b.at(-1)?.at??0}`).catch(()=>{});t&&(fs=t.now-Date.now(),gs(t.moments.map(e=>En(t,e)))),this.#e=!1}async#n(){if(!this.#e){this.#e=!0;try{let t=await _(new URL("metrics",k),{headers:{Accept:"text/plain"}});if(!t.ok){this.failure=await C(t);return}let e=Sn(await t.text());gs([{at:Date.now()+fs,isWhole:!0,metrics:e}]),this.streams=await ht("streams").catch(()=>{}),this.failure=void 0}catch(t){this.failure={title:"The server cannot be reached",detail:String(t)}}finally{this.#e=!1}this.requestUpdate()}}async#r(t){let e=await _(new URL(`streams/${t}`,k),{method:"DELETE"}),s=e.ok||e.status===404||e.status===409;this.refused=s?void 0:await C(e),await this.#n(),await this.updateComplete,St()}render(){return c`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">The last 15 minutes, and now; asked for every two seconds.</p>
      ${this.failure?this.#i(this.failure):h} ${b.length?this.#a():h}
      ${this.refused?this.#i(this.refused):h}
      ${this.streams?.streams.length?this.#o(this.streams):h}
    </article>`}#i({status:t,title:e,detail:s}){let r=t===404?"With `admin_listen` this view works at that port only.":t===401||t===403?"Enter a token that [admin] names in rowstream.toml.":"";return c`<div class="card problem" role="alert">
      <h2>${t?c`<span>${t}</span>`:h} ${e}</h2>
      <p>${s}</p>
      <p class="hint">${r}</p>
    </div>`}#o({streams:t,more:e}){return c`<section class="card live" aria-label="Each stream in flight" tabindex="0">
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
          ${t.map(({id:s,endpoint:r,format:i,started:o,rows:a,bytes:l,ms:u})=>c`<tr>
              <th scope="row">${r}</th>
              <td>${i}</td>
              <td class="number">${A(Math.max(0,Date.now()-Date.parse(o)))}</td>
              <td class="number">${w(a)}</td>
              <td class="number">${S(l)}</td>
              <td>${$s(ft.map(p=>(u[p]??0)/1e3))}</td>
              <td>
                <button class="stop" aria-label="Stop the stream ${s} of ${r}" @click=${()=>this.#r(s)}>
                  Stop
                </button>
              </td>
            </tr>`)}
        </tbody>
      </table>
      ${e?c`<p class="quiet">and ${w(e)} more</p>`:h}
    </section>`}#a(){let t=b.at(-1),e=u=>P(u,"endpoint")!=="/_rowstream/",s=u=>e(u)&&P(u,"outcome")==="complete",r=u=>e(u)&&P(u,"outcome")!=="complete",i=(u,p=e)=>d=>It(d,m=>V(m,u,p)),o=u=>p=>V(b[p],u),a=u=>It(u,p=>V(p,"process_cpu_seconds_total"))*100,l=V(t,"rowstream_permits_max");return c`<div class="charts">
        ${q("Streams in flight",o("rowstream_streams_running"),w,`of ${w(l)} at most`)}
        ${q("Rows per second",i("rowstream_rows_total"),w)}
        ${q("Sent per second",i("rowstream_sent_bytes_total"),S)}
        ${q("Requests per second",i("rowstream_requests_total",s),ce,"that were complete")}
        ${q("Incomplete per second",i("rowstream_requests_total",r),ce,"failed, cancelled or cut")}
        ${q("Memory",o("process_resident_memory_bytes"),S,"resident")}
        ${q("Processor",a,u=>`${u.toFixed(0)} %`,"of one core")}
        ${le(t,"rowstream_pool_used").map(Tn)} ${le(t,"rowstream_host_in_flight").map(An)}
      </div>
      ${On(t)}`}},le=(n,t)=>[...n.metrics.get(t)?.keys()??[]];function An(n){let t=e=>b[e].metrics.get("rowstream_host_in_flight")?.get(n)??0;return q(`Host ${P(n,"host")}`,t,w,`in flight, of ${P(n,"source")}`)}function Tn(n){let t=(r,i=b.length-1)=>b[i].metrics.get(r)?.get(n)??0,e=t("rowstream_pool_waiting"),s=`of ${t("rowstream_pool_max")}, ${e} waiting`;return q(`Pool of ${P(n,"source")}`,r=>t("rowstream_pool_used",r),w,s)}var ce=n=>n<10?n.toFixed(1):w(n);function q(n,t,e,s=""){let r=b.map((d,m)=>t(m)),i=Math.max(...r,1e-9),o=b.at(-1).at,a=Math.max(Rn,o-b[0].at),l=d=>(200-200*(o-b[d].at)/a).toFixed(1),u=r.map((d,m)=>`${l(m)},${(46-d/i*42).toFixed(1)}`),p=`${l(0)},48 ${u.join(" ")} 200,48`;return c`<section class="card chart" aria-label=${n}>
    <h2>${n}</h2>
    <p><b>${e(r.at(-1)??0)}</b> <span class="quiet">${s}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${e(i)}">
      ${Pe`<polygon points=${p}></polygon><polyline points=${u.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${e(Math.max(...r))}</p>
  </section>`}function Pn(n,t){let e=[...n.metrics.get(ws)??[]].filter(([r])=>P(r,"endpoint")===t).map(([r,i])=>({bound:Number(P(r,"le").replace("+Inf","Infinity")),count:i})).sort((r,i)=>r.bound-i.bound),s=e.at(-1)?.count??0;return s?e.find(({count:r})=>r>=.95*s)?.bound:void 0}var Cn=n=>n===void 0?"":n===1/0?"longer":A(n*1e3);function On(n){let t=le(n,"rowstream_streams_running"),e=b.length-1,s=i=>i.isWhole,r=t.map(i=>{let o=P(i,"endpoint"),a=d=>P(d,"endpoint")===o,l=d=>It(e,m=>V(m,d,a),s),u=d=>m=>a(m)&&P(m,"phase")===d,p=ft.map(d=>It(e,m=>V(m,"rowstream_phase_seconds_total",u(d)),s));return{path:o,running:V(n,"rowstream_streams_running",a),of:l,phases:p,most:Pn(n,o)}});return r.sort((i,o)=>(o.most??-1)-(i.most??-1)),c`<section class="card live" aria-label="Endpoints now" tabindex="0">
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
        ${r.map(({path:i,running:o,of:a,phases:l,most:u})=>c`<tr>
            <th scope="row"><a href="#/endpoints${i}">${i}</a></th>
            <td class="number">${w(o)}</td>
            <td class="number">${ce(a("rowstream_requests_total"))}</td>
            <td class="number">${w(a("rowstream_rows_total"))}</td>
            <td class="number">${Cn(u)}</td>
            <td>${$s(l)}</td>
          </tr>`)}
      </tbody>
    </table>
    <p class="quiet">${ft.map(i=>c`<span class="key ${i}">${i}</span>`)}</p>
  </section>`}function $s(n){let t=n.reduce((s,r)=>s+r,0);if(t===0)return h;let e=n.map((s,r)=>`${ft[r]} ${A(s*1e3)}`).join(", ");return c`<div class="bar" role="img" aria-label=${e}>
    ${n.map((s,r)=>c`<i class=${ft[r]} ${T({flexGrow:String(s/t)})}></i>`)}
  </div>`}customElements.define("rs-live",ae);var bs="rowstream.theme",he=12,de=["auto","light","dark"],ue=class extends y{constructor(){super();this.takesTokens=!1;this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(bs)??"auto",this.#t(),this.#r(),addEventListener("hashchange",()=>{this.#t(),this.updateComplete.then(St)}),this.#e()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=Kt(e)||"/endpoints",this.requestUpdate()}async#e(){try{let e=await ht("openapi.json");this.takesTokens=Ie(e),this.endpoints=je(e),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#s(){return this.endpoints?.find(({name:e})=>this.path===`/endpoints${e}`)}#n(){this.theme=de[(de.indexOf(this.theme)+1)%de.length],localStorage.setItem(bs,this.theme),this.#r()}#r(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#s;document.title=e?`${e.name} · Rowstream`:"Rowstream console"}render(){let e=this.#s;return c`<a class="skip" href="#main" @click=${this.#m}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${Ln} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path==="/live"?h:"page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path==="/live"?"page":h}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#n}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#h}>${this.#l()}</button>
      </header>
      ${this.path==="/live"?c`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`:c`<div class="page ${e?"has-chosen":""}">
            <nav aria-label="Endpoints">${this.#i()}</nav>
            <main id="main" tabindex="-1">
              ${e?c`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#u()}
            </main>
          </div>`}
      ${this.#p()}`}#i(){if(this.failure)return c`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#e()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({name:r,summary:i})=>e.every(o=>`${r} ${i}`.toLowerCase().includes(o)));return c`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${r=>this.search=r.target.value}
      />
      <ul>
        ${s.map(({path:r,name:i,summary:o,needsToken:a})=>c`<li>
            <a href="#/endpoints${r}" aria-current=${this.path===`/endpoints${i}`?"page":h}>
              <code>${i}</code>${a?c`<span class="lock" title="needs a token">token</span>`:h}
              ${o?c`<small title=${o}>${o}</small>`:h}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?this.#o():h}
      ${this.endpoints&&this.takesTokens&&!this.#a?c`<p class="quiet">
            ${E()?"Your token opens no endpoint: it may be wrong, or have expired.":"Endpoints that need a token are listed once you have entered one."}
          </p>
          <button class="run" @click=${this.#h}>Enter a token</button>`:h}`}#o(){return c`<p class="quiet">
      ${this.search?"No endpoint has these words in its path or summary.":this.takesTokens?"No endpoint is open to everybody.":"This server has no endpoints."}
    </p>`}get#a(){return E()!==""&&(this.endpoints??[]).some(({needsToken:e})=>e)}#l(){return E()?!this.endpoints||this.#a?"Token ✓":"Token ✗":"Token"}#u(){let e=this.endpoints&&this.path!=="/endpoints";return c`<div class="welcome">
      <h1>${e?"There is no such endpoint":"Try an endpoint"}</h1>
      ${e?c`<p>It may need a token, or it may be gone. Choose another one.</p>`:c`<ol>
            <li>Choose an endpoint.</li>
            <li>Fill in its parameters and press <b>Run</b>. Rows appear as the database sends them.</li>
            <li>Copy the same request for curl, JavaScript or Python.</li>
          </ol>`}
      ${this.endpoints?.length?this.#c(this.endpoints):h}
    </div>`}#c(e){return c`<ul class="offers">
        ${e.slice(0,he).map(({path:s,name:r,summary:i,params:o})=>c`<li>
            <a class="card" href="#/endpoints${s}">
              <code>${r}</code>
              <span>${i}</span>
              <small>${o.map(At).join(", ")}</small>
            </a>
          </li>`)}
      </ul>
      ${e.length>he?c`<p>The list has ${e.length-he} more.</p>`:h}`}#h(){this.querySelector("dialog.token").showModal()}#p(){return c`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#d}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${E()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#d(e){e.preventDefault(),He(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#e(),this.requestUpdate()}#m(e){e.preventDefault(),this.querySelector("main").focus()}},Ln=c`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",ue);
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
